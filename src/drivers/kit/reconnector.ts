import { pauseMs, type Backoff } from '../../core/time/backoff.ts'
import { type Environment, type Timer, systemEnvironment } from '../../core/time/environment.ts'

interface ReconnectorSetup {
  readonly backoff: Backoff
  /** One attempt. Must not throw: it reports by `succeeded` or `failed`. */
  readonly attempt: () => void
  /** A connection that ends sooner than this counts as one more failure in the row. @default 0 */
  readonly lastsMs?: number
  /** True: the process does not end while a pause is under way. @default false */
  readonly keepsProcess?: boolean
  /** Timers, clock and chance. @default those of the runtime */
  readonly environment?: Environment
}

/** Connects again with growing pauses. One timer; nothing is under way after `close`. */
export class Reconnector {
  readonly #setup: ReconnectorSetup
  readonly #environment: Environment
  #failures = 0
  #connectedAt: number | undefined
  #timer: Timer | undefined
  #closed = false

  constructor(setup: ReconnectorSetup) {
    this.#setup = setup
    this.#environment = setup.environment ?? systemEnvironment()
  }

  /** Failures in a row. */
  get failures(): number {
    return this.#failures
  }

  /** The attempt failed, or the connection ended: schedules the next attempt, unless one is scheduled already. */
  failed(): void {
    if (this.#closed || this.#timer !== undefined) return
    const { backoff, attempt, lastsMs = 0, keepsProcess = false } = this.#setup
    const lastedMs = this.#connectedAt === undefined ? -1 : this.#environment.now() - this.#connectedAt
    if (lastedMs >= lastsMs) this.#failures = 0
    this.#connectedAt = undefined
    this.#failures += 1
    this.#timer = this.#environment.timer(pauseMs(backoff, this.#failures, this.#environment.random()), () => {
      this.#timer = undefined
      attempt()
    })
    this.#timer.keepAlive(keepsProcess)
  }

  /** Connected. The row of failures ends once the connection has lasted for `lastsMs`. */
  succeeded(): void {
    this.#connectedAt = this.#environment.now()
    if ((this.#setup.lastsMs ?? 0) === 0) this.#failures = 0
  }

  close(): void {
    this.#closed = true
    this.#timer?.cancel()
    this.#timer = undefined
  }
}
