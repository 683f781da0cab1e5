import { roundingMs } from '../protocol/comment-text.ts'

/** GitHub counts requests by the hour. */
const windowMs = 3_600_000
/** How far ahead of an even pace the token's users may get before everybody slows down. */
const slack = 0.9
/** The share of the hour's requests that is kept to the end, for renewals and releases. */
const reserve = 0.05
/** After GitHub complained about the pace, how long to go slowly. */
const slowAfterLimitMs = 600_000
/** Two writes a second and process is what GitHub advises against: a process with many claims renews each less often. */
const writeEveryMs = 2500

/**
 * How fast to go. All workers of a token share one budget and see how much of it is left, with every answer: when it is
 * used up faster than the hour passes, each of them stretches its heartbeats and looks less often.
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

  /** What an answer of that date said: requests allowed, requests left, and when they are counted anew. */
  note(limit: number, remaining: number, resetMs: number, dateMs: number, now: number): void {
    this.#limit = limit
    this.#remaining = remaining
    this.#resetAt = now + Math.max(0, resetMs - dateMs)
    this.#readAt = now
  }

  /** GitHub refused a request because of the pace. */
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

  /** How long after the last edit a claim of `ttlMs` is to be edited again. 0: whenever it is asked for. */
  editEveryMs(now: number, ttlMs: number, claims: number): number {
    const crowdMs = claims * writeEveryMs > this.#heartbeatMs ? claims * writeEveryMs : 0
    const wantedMs = this.isPressed(now) ? Infinity : crowdMs
    // Two edits must fit into a lease, one of which may fail.
    return Math.max(0, Math.min(wantedMs, ttlMs * 0.4 - roundingMs))
  }

  /** How long after its last edit a waiting claim is to be edited again: it can lose nothing but its place. */
  waiterEditEveryMs(now: number, ttlMs: number, claims: number): number {
    return Math.max(this.editEveryMs(now, ttlMs, claims), ttlMs / 3)
  }

  /** How long a waiting claim may live by what it read last. */
  readEveryMs(now: number, ttlMs: number): number {
    return this.isPressed(now) ? ttlMs / 5 : 0
  }
}
