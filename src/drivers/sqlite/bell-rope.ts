import { closeSync, constants, openSync, write } from 'node:fs'

/**
 * Somebody's bell, open for writing. Writing leaves the event loop alone for a moment, and that is its point: the system
 * often puts the process it wakes behind the one that woke it, on the same processor.
 */
export class BellRope {
  readonly #descriptor: number
  #pulling = 0
  #letGo = false

  /** Throws where there is no such bell. */
  constructor(file: string) {
    this.#descriptor = openSync(file, constants.O_WRONLY | constants.O_APPEND)
  }

  /** Resolves when the text is there, or cannot be. */
  pull(text: string): Promise<void> {
    this.#pulling += 1
    return new Promise((resolve) => {
      // A full disk is no reason to fail: who is not reached asks in time.
      write(this.#descriptor, text, () => {
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
