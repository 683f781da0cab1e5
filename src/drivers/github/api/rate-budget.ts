import { roundingMs } from '../protocol/comment-text.ts'

/** GitHub counts requests by the hour. */
const windowMs = 3_600_000
/** How far the users of a token may run ahead of an even pace before all of them slow down. */
const slack = 0.9
/** The share of the hour's requests that is reserved for renewals and releases. */
const reserve = 0.05
/** How long to go slowly after GitHub refused a request because of the rate limit. */
const slowAfterLimitMs = 600_000
/** The pause between writes of one process, by GitHub's advice: with many claims, each is renewed less often. */
const writeEveryMs = 2500

/**
 * How fast to go. All workers of a token share one hourly budget, and every reply tells how much of it is left. If it is used
 * up faster than the hour passes, each worker stretches its heartbeats and polls less often.
 */
export class RateBudget {
  readonly #heartbeatMs: number
  #limit = 0
  #remaining = 0
  #resetAt = 0
  #readAt = 0
  #slowUntil = -Infinity

  constructor(heartbeatMs: number) {
    this.#heartbeatMs = heartbeatMs
  }

  /** Notes the rate headers of a reply of that date: the limit, the requests left, and when the window resets. */
  note(limit: number, remaining: number, resetMs: number, dateMs: number, now: number): void {
    this.#limit = limit
    this.#remaining = remaining
    this.#resetAt = now + Math.max(0, resetMs - dateMs)
    this.#readAt = now
  }

  /** Notes that GitHub refused a request because of the rate limit. */
  limited(now: number): void {
    this.#slowUntil = now + slowAfterLimitMs
  }

  /** Whether to save requests. */
  isPressed(now: number): boolean {
    if (now < this.#slowUntil) return true
    if (this.#limit === 0 || now >= this.#resetAt) return false
    const leftOfWindow = Math.min(1, (this.#resetAt - this.#readAt) / windowMs)
    return this.#remaining < this.#limit * (leftOfWindow * slack + reserve)
  }

  /** The least time between two edits of a held claim of `ttlMs`. 0: edit at every renewal. */
  editEveryMs(now: number, ttlMs: number, claims: number): number {
    const crowdMs = claims * writeEveryMs > this.#heartbeatMs ? claims * writeEveryMs : 0
    const wantedMs = this.isPressed(now) ? Infinity : crowdMs
    // Two edits must fit into a lease, so that one of them may fail.
    return Math.max(0, Math.min(wantedMs, ttlMs * 0.4 - roundingMs))
  }

  /** The least time between two edits of a waiting claim. Longer: it can only lose its place. */
  waiterEditEveryMs(now: number, ttlMs: number, claims: number): number {
    return Math.max(this.editEveryMs(now, ttlMs, claims), ttlMs / 3)
  }

  /** How long a waiting claim may reuse its last reading. */
  readEveryMs(now: number, ttlMs: number): number {
    return this.isPressed(now) ? ttlMs / 5 : 0
  }
}
