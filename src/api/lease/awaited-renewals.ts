interface Caller {
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/** Callers of `lease.renew` that have no answer yet: each gets the answer to a request that was sent after the call. */
export class AwaitedRenewals {
  /** Callers whose request is under way. */
  #sent: Caller[] = []
  /** Callers whose request follows the one under way. */
  #next: Caller[] = []

  /** Settles with the answer to the next request, or to the one after it if a request is under way already. */
  next(isUnderWay: boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      const callers = isUnderWay ? this.#next : this.#sent
      callers.push({ resolve, reject })
    })
  }

  /** The request under way was answered: with an error, or it went through. */
  answered(error?: unknown): void {
    const callers = this.#sent
    this.#sent = this.#next
    this.#next = []
    for (const { resolve, reject } of callers) {
      if (error === undefined) resolve()
      else reject(error)
    }
  }

  /** No request of this lease will be answered any more. The error is made only if somebody awaits it. */
  failed(error: () => unknown): void {
    const callers = [...this.#sent, ...this.#next]
    this.#sent = []
    this.#next = []
    for (const { reject } of callers) reject(error())
  }
}

/** Whether the work under a lease makes progress: without progress its heartbeat stops, and with it goes on again. */
export class Progress {
  readonly #withinMs: number
  #lastAt: number
  /** The heartbeat was stopped for want of progress. */
  stalled = false

  constructor(withinMs: number, at: number) {
    this.#withinMs = withinMs
    this.#lastAt = at
  }

  made(at: number): void {
    this.#lastAt = at
  }

  isWanting(at: number): boolean {
    return at - this.#lastAt > this.#withinMs
  }

  /** The reason of a jeopardy or loss: `no-progress` if the lease was not renewed for want of progress. */
  why(reason: string): string {
    return this.stalled && (reason === 'not renewed' || reason === 'expired') ? 'no-progress' : reason
  }
}
