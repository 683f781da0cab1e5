import { pauseMs, type Backoff } from '../../core/time/backoff.ts'

const pauses: Backoff = { attempts: Infinity, minMs: 20, maxMs: 800, factor: 1.5, jitter: 0.25 }
/** A crowd polls less often, so that a driver sends some thousand polls a second at most. */
const pausePerWaiterMs = 0.8

/**
 * Reports gaps while notifications cannot arrive and claims wait: each gap makes the client poll its waiters, in one batch. The
 * pauses grow, and begin anew with each claim that begins to wait.
 */
export class WaiterPolling {
  readonly #isDeaf: () => boolean
  readonly #onGap: () => void
  #waitsUntil = -Infinity
  /** Gaps since a claim last began to wait. */
  #gaps = 0
  #gapAt = Infinity
  #timer: NodeJS.Timeout | undefined
  #closed = false
  /** Answers `waiting` since the last gap, and between the two gaps before: about as many as claims that wait. */
  #answers = 0
  #answersBefore = 0

  constructor(isDeaf: () => boolean, onGap: () => void) {
    this.#isDeaf = isDeaf
    this.#onGap = onGap
  }

  /** Whether a claim may be waiting: the store answered `waiting`, and the ttl of that answer has not passed. */
  get mayWait(): boolean {
    return performance.now() < this.#waitsUntil
  }

  /** The store answered `waiting` so many times, for `ttlMs` at most. `isNew`: a claim has just begun to wait. */
  answered(count: number, ttlMs: number, isNew: boolean): void {
    // Statements under way when the driver is closed are still answered.
    if (this.#closed) return
    this.#answers += count
    this.#waitsUntil = Math.max(this.#waitsUntil, performance.now() + ttlMs)
    if (isNew || this.#gapAt === Infinity) this.restart()
  }

  /** The shortest pause comes next: a claim has begun to wait, or notifications have ceased. */
  restart(): void {
    this.#gaps = 0
    this.#schedule()
  }

  close(): void {
    this.#closed = true
    this.#waitsUntil = -Infinity
    clearTimeout(this.#timer)
  }

  #schedule(): void {
    if (!this.#isDeaf() || !this.mayWait) return
    const crowdMs = Math.min(pauses.maxMs, Math.max(this.#answers, this.#answersBefore) * pausePerWaiterMs)
    const inMs = Math.max(crowdMs, pauseMs(pauses, this.#gaps + 1, Math.random()))
    const gapAt = performance.now() + inMs
    // Never later than scheduled: claims that begin to wait all the time would put it off for ever.
    if (gapAt >= this.#gapAt) return
    this.#gapAt = gapAt
    clearTimeout(this.#timer)
    // Unreferenced: a claim that waits keeps the process alive by itself.
    this.#timer = setTimeout(() => this.#gap(), inMs).unref()
  }

  #gap(): void {
    this.#gapAt = Infinity
    if (!this.#isDeaf()) return
    this.#gaps += 1
    this.#answersBefore = this.#answers
    this.#answers = 0
    this.#schedule()
    this.#onGap()
  }
}
