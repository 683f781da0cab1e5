import { closeSync, constants, fstat, openSync, writeSync } from 'node:fs'

/**
 * Somebody's bell, open for writing. Whoever pulls should then leave the event loop alone for a moment: the system often
 * puts the process it wakes behind the one that woke it, on the same processor.
 */
export class BellRope {
  readonly #descriptor: number
  #pulling = 0
  #letGo = false

  /** Throws where there is no such bell. */
  constructor(file: string) {
    this.#descriptor = openSync(file, constants.O_WRONLY | constants.O_APPEND)
  }

  /** Rings at once, and resolves when this thread has been idle and whoever was woken could have its processor. */
  pull(text: string): Promise<void> {
    try {
      writeSync(this.#descriptor, text)
    } catch {
      // A full disk is no reason to fail: who is not reached asks in time.
    }
    this.#pulling += 1
    return new Promise((resolve) => {
      // Another thread looks at the file; what it finds does not matter, only that this one waits.
      fstat(this.#descriptor, () => {
        this.#pulling -= 1
        this.#closeWhenDone()
        resolve()
      })
    })
  }

  /** No more pulls. */
  letGo(): void {
    this.#letGo = true
    this.#closeWhenDone()
  }

  /** Not before: the number of a closed file may be another file's by the time it is written to. */
  #closeWhenDone(): void {
    if (this.#letGo && this.#pulling === 0) closeSync(this.#descriptor)
  }
}
