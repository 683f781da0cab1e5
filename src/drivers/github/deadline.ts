import type { Environment, Timer } from '../../core/environment.ts'
import { LeaseholdError } from '../../core/errors.ts'

/** Until when a request is worth answering. Whatever is under way or in a queue then is given up. */
export class Deadline implements Disposable {
  readonly until: number
  readonly signal: AbortSignal
  /** Rejects when time is up. */
  readonly late: Promise<never>
  readonly #environment: Environment
  readonly #timer: Timer

  constructor(environment: Environment, milliseconds: number) {
    const controller = new AbortController()
    this.#environment = environment
    this.until = environment.now() + milliseconds
    this.signal = controller.signal
    let fail: (error: unknown) => void = () => {}
    this.late = new Promise<never>((_, reject) => {
      fail = reject
    })
    // Most requests are in time, and nobody waits for this.
    this.late.catch(() => {})
    this.#timer = environment.timer(milliseconds, () => {
      const error = new LeaseholdError('UNAVAILABLE', `GitHub has not answered for ${Math.round(milliseconds)} ms.`, {
        reason: 'no-answer',
      })
      controller.abort(error)
      fail(error)
    })
    this.#timer.keepAlive(true)
  }

  get leftMs(): number {
    return this.until - this.#environment.now()
  }

  /** What `work` gives, unless time is up first. */
  bound<Result>(work: Promise<Result>): Promise<Result> {
    return Promise.race([work, this.late])
  }

  /** Waits, if there is time for that. */
  async pause(milliseconds: number): Promise<void> {
    let timer: Timer | undefined
    const paused = new Promise<void>((resolve) => {
      timer = this.#environment.timer(milliseconds, resolve)
      timer.keepAlive(true)
    })
    try {
      await this.bound(paused)
    } finally {
      timer?.cancel()
    }
  }

  [Symbol.dispose](): void {
    this.#timer.cancel()
  }
}
