/** Whether the work under a lease gets on: its heartbeat stops when it does not, and goes on when it does again. */
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

  /** Why a lease is in danger, or over: one that was let run out for want of progress says so. */
  why(reason: string): string {
    return this.stalled && (reason === 'not renewed' || reason === 'expired') ? 'no-progress' : reason
  }
}
