import type { Logger } from '../../api/client/logger.ts'
import type { Environment } from '../../core/time/environment.ts'

/**
 * Why a connection was cut off. `connections`: there are too many; `address`: too many of one address; `calls`: too many calls at once
 * on it; `bytes`: its answers or bodies took too much memory; `unread`: its caller does not read.
 */
export type DropReason = 'connections' | 'address' | 'calls' | 'bytes' | 'unread'

const reasons: Readonly<Record<DropReason, string>> = {
  connections: 'there were too many',
  address: 'their address had too many',
  calls: 'they sent calls without reading the answers',
  bytes: 'what they sent or did not read took too much memory',
  unread: 'they did not read',
}

/** An attack drops thousands a second: the log is for people. */
const everyMs = 10_000

/** Counts connections that were cut off, and logs them: at once, then every ten seconds with how many there were. @internal */
export class DropLog {
  readonly #logger: Logger | undefined
  readonly #count: (why: DropReason) => void
  readonly #environment: Pick<Environment, 'now'>
  readonly #since = new Map<DropReason, number>()
  #loggedAt = -Infinity

  constructor(logger: Logger | undefined, count: (why: DropReason) => void, environment: Pick<Environment, 'now'>) {
    this.#logger = logger
    this.#count = count
    this.#environment = environment
  }

  note(why: DropReason): void {
    this.#count(why)
    this.#since.set(why, (this.#since.get(why) ?? 0) + 1)
    const now = this.#environment.now()
    if (now - this.#loggedAt < everyMs) return
    this.#loggedAt = now
    const counts = [...this.#since].map(([reason, count]) => `${count} because ${reasons[reason]}`)
    this.#since.clear()
    this.#logger?.warn(`connections were cut off: ${counts.join(', ')}`)
  }
}
