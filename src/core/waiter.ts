import type { Sleeper } from './alarm.ts'
import { adaptivePolling, pauseMs, retryPresets, type Backoff } from './backoff.ts'
import type { Claim, Standing, Succession } from './driver.ts'
import { worthRetrying } from './errors.ts'
import type { Effect, LifeTerms } from './life.ts'
import { Tenure, type Office } from './tenure.ts'

/** One acquisition: what to claim and for how long to try. */
export interface Wish {
  /** A claim with a fresh id: an id that was answered absent is never claimed again. */
  readonly newClaim: () => Claim
  readonly terms: LifeTerms
  /** 0: do not wait. Infinity: as long as it takes. */
  readonly waitMs: number
  readonly signal: AbortSignal | undefined
  /** Set by the caller; absent: ask as long as `waitMs` allows, and try a store that fails ten times. */
  readonly retry: Backoff | undefined
  /** Told each time the place in the queue is heard of. */
  readonly queued: (ahead: number) => void
}

/** How an acquisition ended. Contention is an outcome, not an error. */
export type Outcome =
  | {
      readonly type: 'granted'
      readonly tenure: Tenure
      readonly fence: number
      readonly after: Succession | undefined
      readonly attempts: number
      readonly waitedMs: number
    }
  | {
      readonly type: 'refused'
      readonly standing: Extract<Standing, { state: 'absent' }>
      readonly attempts: number
      readonly waitedMs: number
    }
  | {
      readonly type: 'timeout'
      readonly ahead: number | undefined
      /** Why the store could not be asked, if that is what used up the time. */
      readonly error: unknown
      readonly attempts: number
      readonly waitedMs: number
    }
  | { readonly type: 'aborted' | 'closed'; readonly attempts: number; readonly waitedMs: number }
  | { readonly type: 'failed'; readonly error: unknown; readonly attempts: number; readonly waitedMs: number }

/**
 * Follows one acquisition over as many attempts as it takes. Each attempt is a claim with a life of its own; a queueing
 * store needs one, others are asked again with a growing pause. Ends in exactly one outcome and leaves no claim behind.
 */
export class Waiter implements Sleeper {
  alarmAt = Infinity
  alarmSlot = -1
  readonly #office: Office
  readonly #wish: Wish
  readonly #done: (outcome: Outcome) => void
  readonly #since: number
  readonly #until: number
  #tenure: Tenure | undefined
  #attempts = 0
  #failures = 0
  #ahead: number | undefined
  #error: unknown
  /** When the next attempt is due, while pausing between two. */
  #pauseUntil = Infinity
  #over = false

  private constructor(office: Office, wish: Wish, done: (outcome: Outcome) => void) {
    this.#office = office
    this.#wish = wish
    this.#done = done
    this.#since = office.environment.now()
    // A call that does not wait is bounded by the life of its one claim.
    this.#until = wish.waitMs === 0 ? Infinity : this.#since + wish.waitMs
  }

  /** Tries until there is an outcome and calls `done` with it, once. `done` must not throw. */
  static start(office: Office, wish: Wish, done: (outcome: Outcome) => void): void {
    const waiter = new Waiter(office, wish, done)
    if (wish.signal?.aborted === true) return waiter.#finish({ type: 'aborted', ...waiter.#effort() })
    wish.signal?.addEventListener('abort', waiter.#abort)
    office.waiters.add(waiter)
    office.alarm.hold()
    waiter.#attempt()
  }

  /** Gives up because the client is closing. */
  close(): void {
    this.#giveUp({ type: 'closed', ...this.#effort() })
  }

  wake(now: number): void {
    if (now >= this.#until) {
      this.#giveUp({ type: 'timeout', ahead: this.#ahead, error: this.#error, ...this.#effort() })
    } else if (now >= this.#pauseUntil) {
      this.#attempt()
    } else {
      this.#setAlarm()
    }
  }

  readonly #abort = (): void => this.#giveUp({ type: 'aborted', ...this.#effort() })

  #attempt(): void {
    this.#pauseUntil = Infinity
    this.#attempts += 1
    this.#setAlarm()
    const claim = this.#wish.newClaim()
    this.#tenure = Tenure.begin(this.#office, claim, this.#wish.terms, (effect) => this.#observe(effect))
  }

  #observe(effect: Exclude<Effect, { type: 'send' }>): void {
    if (this.#over) return
    switch (effect.type) {
      case 'granted':
        return this.#finish({
          type: 'granted',
          tenure: this.#tenure as Tenure,
          fence: effect.fence,
          after: effect.after,
          ...this.#effort(),
        })
      case 'queued':
        this.#ahead = effect.ahead
        this.#error = undefined
        return this.#wish.queued(effect.ahead)
      case 'refused':
        return this.#refused(effect.standing)
      case 'failed':
        return this.#failed(effect.error)
      case 'renewal-failed':
        this.#error = effect.error
        return
      default:
        return
    }
  }

  #refused(standing: Extract<Standing, { state: 'absent' }>): void {
    const { waitMs, retry } = this.#wish
    const mayAskAgain = standing.reason === 'refused' || standing.reason === 'expired' || standing.reason === 'unknown'
    if (waitMs === 0 || !mayAskAgain) return this.#finish({ type: 'refused', standing, ...this.#effort() })
    if (standing.reason === 'refused') this.#wish.queued(0)
    this.#tryAgain(retry ?? adaptivePolling)
  }

  #failed(error: unknown): void {
    this.#error = error
    const { waitMs, retry } = this.#wish
    const attemptsMax = (retry ?? retryPresets.standard).attempts
    if (waitMs === 0 || !worthRetrying(error) || this.#attempts >= attemptsMax) {
      return this.#finish({ type: 'failed', error, ...this.#effort() })
    }
    this.#tryAgain(retry ?? retryPresets.standard)
  }

  #tryAgain(backoff: Backoff): void {
    if (this.#attempts >= backoff.attempts) {
      return this.#finish({ type: 'timeout', ahead: this.#ahead, error: this.#error, ...this.#effort() })
    }
    const { environment } = this.#office
    this.#failures += 1
    this.#pauseUntil = environment.now() + pauseMs(backoff, this.#failures, environment.random())
    this.#setAlarm()
  }

  #setAlarm(): void {
    this.#office.alarm.set(this, Math.min(this.#until, this.#pauseUntil))
  }

  /** Ends without a lease: whatever was claimed is released by its id, granted or not. */
  #giveUp(outcome: Outcome): void {
    if (this.#over) return
    const tenure = this.#tenure
    this.#finish(outcome)
    tenure?.release()
  }

  #finish(outcome: Outcome): void {
    this.#over = true
    const { alarm, waiters } = this.#office
    alarm.set(this, Infinity)
    if (waiters.delete(this)) alarm.unhold()
    this.#wish.signal?.removeEventListener('abort', this.#abort)
    this.#done(outcome)
  }

  #effort(): { readonly attempts: number; readonly waitedMs: number } {
    return { attempts: this.#attempts, waitedMs: this.#office.environment.now() - this.#since }
  }
}
