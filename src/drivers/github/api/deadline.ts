import { afterReading } from '../../../core/time/bounded.ts'
import type { Environment, Timer } from '../../../core/time/environment.ts'
import { LeaseholdError } from '../../../core/errors.ts'

/** Until when a request is worth answering. Whatever is under way or in a queue then is given up. */
export class Deadline implements Disposable {
  readonly until: number
  readonly signal: AbortSignal
  /** Rejects when time is up. */
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
    // Most requests are in time, and nobody waits for this.
    this.timedOut.catch(() => {})
    const message = `GitHub has not answered for ${Math.round(milliseconds)} ms.`
    this.#timer = environment.timer(milliseconds, () => afterReading(environment, () => this.#timeIsUp(message)))
    this.#timer.keepAlive(true)
  }

  #timeIsUp(message: string): void {
    if (!this.#over) this.giveUp(new LeaseholdError('UNAVAILABLE', message, { reason: 'no-answer' }))
  }

  /** Time is up now. */
  giveUp(error: LeaseholdError): void {
    this.#timer.cancel()
    this.#controller.abort(error)
    this.#fail(error)
  }

  get leftMs(): number {
    return this.until - this.#environment.now()
  }

  /** What `work` gives, unless time is up first. */
  bound<Result>(work: Promise<Result>): Promise<Result> {
    return Promise.race([work, this.timedOut])
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
    this.#over = true
    this.#timer.cancel()
  }
}

/** The deadlines of one driver, so that all that is under way can be given up when it is closed. */
export class Deadlines {
  readonly #environment: Environment
  readonly #open = new Set<Deadline>()

  constructor(environment: Environment) {
    this.#environment = environment
  }

  /** Does the work within a time of its own. */
  async within<Result>(milliseconds: number, work: (deadline: Deadline) => Promise<Result>): Promise<Result> {
    using deadline = new Deadline(this.#environment, milliseconds)
    this.#open.add(deadline)
    try {
      return await work(deadline)
    } finally {
      this.#open.delete(deadline)
    }
  }

  /** Gives up whatever is under way. */
  giveUpAll(error: LeaseholdError): void {
    for (const deadline of this.#open) deadline.giveUp(error)
  }
}
