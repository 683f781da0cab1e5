/** Room for so many at once. Whoever finds none waits, in order of arrival. */
export class Semaphore {
  #free: number
  readonly #waiting = new Set<(isTaken: boolean) => void>()

  constructor(count: number) {
    this.#free = count
  }

  /** Whether a place was taken, which is then to be given back. False: none came free in time, or before `close`. */
  take(withinMs: number): Promise<boolean> {
    if (this.#free > 0) {
      this.#free -= 1
      return Promise.resolve(true)
    }
    return new Promise((resolve) => {
      const settle = (isTaken: boolean): void => {
        clearTimeout(timer)
        this.#waiting.delete(settle)
        resolve(isTaken)
      }
      const timer = setTimeout(() => settle(false), withinMs)
      this.#waiting.add(settle)
    })
  }

  giveBack(): void {
    const [first] = this.#waiting
    if (first === undefined) this.#free += 1
    else first(true)
  }

  /** Sends away whoever waits. */
  close(): void {
    for (const settle of this.#waiting) settle(false)
  }
}
