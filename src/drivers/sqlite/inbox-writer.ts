import { closeSync, constants, fstat, openSync, writeSync } from 'node:fs'

/**
 * Somebody's inbox, open for writing. Whoever rings pauses afterwards: the system often puts the process it wakes behind the
 * one that woke it, on the same processor.
 */
export class InboxWriter {
  readonly #descriptor: number
  #pulling = 0
  #letGo = false

  /** Throws where there is no such inbox. */
  constructor(file: string) {
    // A link would lead to a file that is nobody's inbox. Windows knows no such flag.
    this.#descriptor = openSync(file, constants.O_WRONLY | constants.O_APPEND | (constants.O_NOFOLLOW ?? 0))
  }

  /**
   * Leaves the text, if that can be done, and resolves when others have had the processor. False: the inbox has been
   * deleted, and nobody hears it.
   */
  pull(text: string): Promise<boolean> {
    try {
      writeSync(this.#descriptor, text)
    } catch {
      // A full disk is no reason to fail: who is not reached asks in time.
    }
    return this.#pause()
  }

  /** Something to be done by another thread, so that this one has nothing to do. */
  #pause(): Promise<boolean> {
    this.#pulling += 1
    return new Promise((resolve) => {
      fstat(this.#descriptor, (error, stats) => {
        this.#pulling -= 1
        this.#closeWhenDone()
        resolve(error !== null || stats.nlink > 0)
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
