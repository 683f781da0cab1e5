import type { Logger } from '../api/logger.ts'
import { messageOf } from '../core/errors.ts'
import type { Environment } from '../core/time/environment.ts'

/** A store that is gone fails every call: the log is for people. */
const everyMs = 60_000

/** Tells the log that the store fails: at once, and then once a minute with how often it has failed since. */
export class FaultLog {
  readonly #logger: Logger | undefined
  readonly #environment: Pick<Environment, 'now'>
  #toldAt = -Infinity
  #since = 0

  constructor(logger: Logger | undefined, environment: Pick<Environment, 'now'>) {
    this.#logger = logger
    this.#environment = environment
  }

  note(error: unknown): void {
    this.#since += 1
    const now = this.#environment.now()
    if (now - this.#toldAt < everyMs) return
    const times = this.#since === 1 ? '' : ` (${this.#since} times since this was last told)`
    this.#logger?.warn(`the store failed: ${messageOf(error)}${times}`)
    this.#toldAt = now
    this.#since = 0
  }
}
