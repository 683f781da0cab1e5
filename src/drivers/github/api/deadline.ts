import { afterReading } from '../../../core/time/bounded.ts'
import type { Environment, Timer } from '../../../core/time/environment.ts'
import { LeaseholdError } from '../../../core/errors.ts'

/** The deadline of a request. When it passes, calls under way or queued are given up. */
export class Deadline implements Disposable {
  readonly until: number
  readonly signal: AbortSignal
  /** Rejects when the deadline passes. */
  readonly timedOut: Promise<never>
  readonly #environment: Environment
  readonly #timer: Timer
  readonly #controller = new AbortController()
  #fail: (error: unknown) => void = () => {}
  #over = false

  constructor(environment: Environment, milliseconds: number) {
    this.#environment = environment
    this.until = environment.now() + milliseconds
    this.signal = this.#controller.signal
    this.timedOut = new Promise<never>((_, reject) => {
      this.#fail = reject
    })
    // Most requests end in time, and then nobody awaits this promise.
    this.timedOut.catch(() => {})
    const message = `GitHub has not answered for ${Math.round(milliseconds)} ms.`
    this.#timer = environment.timer(milliseconds, () => afterReading(environment, () => this.#timeIsUp(message)))
    this.#timer.keepAlive(true)
  }

  #timeIsUp(message: string): void {
    if (!this.#over) this.giveUp(new LeaseholdError('UNAVAILABLE', message, { reason: 'no-answer' }))
  }

  /** Ends the deadline now, with this error. */
  giveUp(error: LeaseholdError): void {
    this.#timer.cancel()
    this.#controller.abort(error)
    this.#fail(error)
  }

  get leftMs(): number {
    return this.until - this.#environment.now()
  }

  /** Settles as `work` does, or rejects when the deadline passes first. */
  bound<Result>(work: Promise<Result>): Promise<Result> {
    return Promise.race([work, this.timedOut])
  }

  /** Waits. Rejects if the deadline passes first. */
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
    this.#over = true
    this.#timer.cancel()
  }
}

/** The open deadlines of one driver, so that closing it can give up all calls. */
export class Deadlines {
  readonly #environment: Environment
  readonly #open = new Set<Deadline>()

  constructor(environment: Environment) {
    this.#environment = environment
  }

  /** Runs `work` with a new deadline. */
  async within<Result>(milliseconds: number, work: (deadline: Deadline) => Promise<Result>): Promise<Result> {
    using deadline = new Deadline(this.#environment, milliseconds)
    this.#open.add(deadline)
    try {
      return await work(deadline)
    } finally {
      this.#open.delete(deadline)
    }
  }

  /** Gives up all calls under way. */
  giveUpAll(error: LeaseholdError): void {
    for (const deadline of this.#open) deadline.giveUp(error)
  }
}
