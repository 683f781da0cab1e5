/** Lets so many calls be under way at once. The others wait, in order of arrival. */
export class CallSemaphore {
  #free: number
  readonly #waiting = new Set<(isTaken: boolean) => void>()

  constructor(count: number) {
    this.#free = count
  }

  /** Whether a place was taken, to be given back. False: none came free within `withinMs`, or before `close`. @default no limit */
  take(withinMs?: number): Promise<boolean> {
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
      const timer = withinMs === undefined ? undefined : setTimeout(() => settle(false), withinMs)
      this.#waiting.add(settle)
    })
  }

  giveBack(): void {
    const [first] = this.#waiting
    if (first === undefined) this.#free += 1
    else first(true)
  }

  /** Takes a place, works, and gives the place back. For semaphores that are never closed. */
  async run<Result>(work: () => Promise<Result>): Promise<Result> {
    await this.take()
    try {
      return await work()
    } finally {
      this.giveBack()
    }
  }

  /** Sends away all that wait. */
  close(): void {
    for (const settle of this.#waiting) settle(false)
  }
}
