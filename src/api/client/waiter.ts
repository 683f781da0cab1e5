import { listenForAbort, stopListeningForAbort } from './abort-listeners.ts'
import type { TimerTask, TimerBucket } from '../../core/time/timer-queue.ts'
import { afterReading } from '../../core/time/bounded.ts'
import { adaptivePolling, pauseMs, retryPresets, type Backoff } from '../../core/time/backoff.ts'
import type { AbsentReason, Claim, AbsentStatus } from '../../core/contract/driver.ts'
import { LeaseholdError, worthRetrying, type DeadlockedOwner } from '../../core/errors.ts'
import type { ClaimEffect, RenewalPolicy } from '../../core/client/claim-step.ts'
import type { SlotMember } from '../../core/client/slot-set.ts'
import { ClaimRuntime, type ClientRuntime } from '../../core/client/claim-runtime.ts'

/** For how long to try, and how. */
export interface WaitPolicy {
  /** 0: do not wait. Infinity: as long as it takes. */
  readonly waitMs: number
  readonly signal: AbortSignal | undefined
  /** Set by the caller; absent: ask as long as `waitMs` allows, and try a store that fails ten times. */
  readonly retry: Backoff | undefined
  /** How long to stay in a queue at most, once in it. Absent: as long as `waitMs` allows. */
  readonly queueMs?: number | undefined
  /** The store's own pace, where asking it is expensive. */
  readonly polling?: Backoff | undefined
}

/** What a claim became. */
export type Grant = Extract<ClaimEffect, { type: 'granted' }>

/** How an acquisition ended without a lease. Contention is an outcome, not an error. */
export type Miss =
  | { readonly type: 'refused'; readonly status: AbsentStatus }
  /** `error`: why the store could not be asked, if that is what used up the time. */
  | { readonly type: 'timeout'; readonly ahead: number | undefined; readonly error: unknown }
  | { readonly type: 'aborted' }
  | { readonly type: 'closed' }
  /** Everybody in a cycle waits for the next, and this one was chosen to give way. */
  | { readonly type: 'deadlocked'; readonly cycle: readonly DeadlockedOwner[] }
  | { readonly type: 'failed'; readonly error: unknown }

/** Claims of a call that does not wait, if the store loses each before it can say who holds the lock. */
const claimsWithoutWaiting = 3

/** Whether a claim came to nothing for what others hold, or for what became of the claim itself, and not for what it asked. */
export function isContention(miss: Miss): boolean {
  return miss.type === 'refused' && miss.status.reason !== 'deadlock' && miss.status.reason !== 'mismatch'
}

/**
 * Follows one acquisition over as many attempts as it takes. Each attempt is a claim with a life of its own; a queueing
 * store needs one, others are asked again with a growing pause. Calls exactly one of `granted` and `missed`, once, and
 * leaves no claim behind in the second case. What to claim is the subclass's business.
 */
export abstract class Waiter implements TimerTask, SlotMember {
  timerSlot = -1
  timerBucket: TimerBucket | undefined
  setSlot = -1
  /** Claims sent so far. */
  attempts = 0
  readonly #client: ClientRuntime
  readonly #waitPolicy: WaitPolicy
  readonly #since: number
  readonly #until: number
  #claimRuntime: ClaimRuntime | undefined
  #failures = 0
  #ahead: number | undefined
  #error: unknown
  /** When the next attempt is due, while pausing between two. */
  #pauseUntil = Infinity
  /** When the place in the queue is given up although there is time left. */
  #queueUntil = Infinity
  #over = false
  /** Why it is no longer wanted, while the store is asked to forget it. */
  #withdrawal: Miss | undefined
  #abort: (() => void) | undefined

  constructor(client: ClientRuntime, waitPolicy: WaitPolicy) {
    this.#client = client
    this.#waitPolicy = waitPolicy
    this.#since = client.environment.now()
    // A call that does not wait is bounded by the life of its one claim.
    this.#until = waitPolicy.waitMs === 0 ? Infinity : this.#since + waitPolicy.waitMs
  }

  /** A claim with a fresh id: an id that was answered absent is never claimed again. Must not throw: timers call it. */
  protected abstract newClaim(): Claim
  protected abstract readonly terms: RenewalPolicy
  /** The place in the queue was heard of. Must not throw, like the two below. */
  protected abstract queued(ahead: number): void
  protected abstract granted(claimRuntime: ClaimRuntime, grant: Grant): void
  protected abstract missed(miss: Miss): void

  /** Whether a new claim may fare better than one that ended this way. Its owner has not had the lock, however it ended. */
  protected worthAsking(reason: AbsentReason): boolean {
    return reason !== 'deadlock' && reason !== 'mismatch'
  }

  /** Whether giving up may let go of no more than the place in the queue. */
  protected get withdraws(): boolean {
    return false
  }

  /** The id of the claim that is under way. */
  get claimId(): string | undefined {
    return this.#claimRuntime?.state.claim.id
  }

  /** When it began. */
  protected get since(): number {
    return this.#since
  }

  start(): void {
    const { signal } = this.#waitPolicy
    // First what may throw: somebody else's signal.
    if (signal !== undefined && !signal.aborted) {
      this.#abort = (): void => this.#giveUp({ type: 'aborted' })
      listenForAbort(signal, this.#abort)
    }
    this.#client.waiters.add(this)
    this.#client.timers.hold()
    if (signal?.aborted === true) return this.#miss({ type: 'aborted' })
    this.#attempt(this.#since)
  }

  /** Asks the store for the status of the queued claim. A claim whose first answer is still to come needs no second request. */
  poll(): void {
    if (this.#claimRuntime?.undecided === true) this.#claimRuntime.onNotification('poll')
  }

  /** Gives up because waiting would never end. */
  giveUpDeadlocked(cycle: readonly DeadlockedOwner[]): void {
    this.#giveUp({ type: 'deadlocked', cycle })
  }

  /** Gives up because the client is closing. */
  close(): void {
    this.#giveUp({ type: 'closed' })
  }

  wake(now: number): void {
    // The answer may have arrived while the event loop was blocked.
    if (now >= Math.min(this.#until, this.#queueUntil)) afterReading(this.#client.environment, () => this.#outOfTime())
    else if (now >= this.#pauseUntil) this.#attempt(now)
    else this.#setTimer()
  }

  /** Told what becomes of the present attempt. */
  observe(effect: Exclude<ClaimEffect, { type: 'send' }>): void {
    if (this.#over) return
    switch (effect.type) {
      case 'granted':
        this.#end()
        return this.granted(this.#claimRuntime as ClaimRuntime, effect)
      case 'queued':
        this.#ahead = effect.ahead
        this.#error = undefined
        this.#boundQueue()
        return this.queued(effect.ahead)
      case 'refused':
        return this.#refused(effect.status)
      case 'failed':
        return this.#failed(effect.error)
      case 'renewal-failed':
        this.#error = effect.error
        return
      default:
        return
    }
  }

  #outOfTime(): void {
    this.#giveUp({ type: 'timeout', ahead: this.#ahead, error: this.#error ?? this.#noAnswer() })
  }

  #attempt(now: number): void {
    this.#pauseUntil = Infinity
    this.attempts += 1
    this.#setTimer()
    this.#claimRuntime = ClaimRuntime.begin(this.#client, this.newClaim(), this.terms, this, now)
  }

  #refused(status: AbsentStatus): void {
    if (this.#withdrawal !== undefined) return this.#miss(this.#withdrawal)
    const { waitMs, retry, polling } = this.#waitPolicy
    const isRefused = status.reason === 'refused'
    // A claim that the store has lost says nothing about who holds the lock: also a call that does not wait asks again.
    const claimsMax = isRefused ? 1 : Math.min(claimsWithoutWaiting, retry?.attempts ?? Infinity)
    const isLast = waitMs === 0 && this.attempts >= claimsMax
    if (isLast || !this.worthAsking(status.reason)) return this.#miss({ type: 'refused', status })
    if (isRefused) this.queued(0)
    this.#tryAgain(waitMs === 0 ? adaptivePolling : (retry ?? polling ?? adaptivePolling))
  }

  #failed(error: unknown): void {
    if (this.#withdrawal !== undefined) return this.#miss(this.#withdrawal)
    this.#error = error
    const { waitMs, retry, polling } = this.#waitPolicy
    const attemptsMax = (retry ?? retryPresets.standard).attempts
    if (waitMs === 0 || !worthRetrying(error) || this.attempts >= attemptsMax) {
      return this.#miss({ type: 'failed', error })
    }
    this.#tryAgain(retry ?? polling ?? retryPresets.standard)
  }

  #tryAgain(backoff: Backoff): void {
    if (this.attempts >= backoff.attempts) {
      return this.#miss({ type: 'timeout', ahead: this.#ahead, error: this.#error })
    }
    const { environment } = this.#client
    this.#failures += 1
    this.#pauseUntil = environment.now() + pauseMs(backoff, this.#failures, environment.random())
    this.#setTimer()
  }

  #setTimer(): void {
    this.#client.timers.set(this, Math.min(this.#until, this.#queueUntil, this.#pauseUntil))
  }

  /** Counts from the first place in a queue: until then attempts are counted themselves. */
  #boundQueue(): void {
    const { queueMs } = this.#waitPolicy
    if (queueMs === undefined || this.#queueUntil !== Infinity) return
    this.#queueUntil = this.#client.environment.now() + queueMs
    this.#setTimer()
  }

  /** A store that has said nothing at all is the reason, not whoever may hold the lock. */
  #noAnswer(): LeaseholdError | undefined {
    if (this.#claimRuntime?.state.phase !== 'asking') return undefined
    return new LeaseholdError('UNAVAILABLE', 'The store has not answered.', { reason: 'no-answer' })
  }

  /** Ends without a lease: whatever was claimed is released by its id, granted or not. */
  #giveUp(miss: Miss): void {
    if (this.#over) return
    // Closing lets go of everything anyway.
    const mayWithdraw = this.withdraws && miss.type !== 'closed'
    if (mayWithdraw && this.#claimRuntime?.undecided === true) return this.#withdraw(this.#claimRuntime, miss)
    this.#miss(miss)
    this.#claimRuntime?.release()
  }

  /** Ends once the store has said whether that was in time. */
  #withdraw(claimRuntime: ClaimRuntime, miss: Miss): void {
    if (this.#withdrawal !== undefined) return
    this.#withdrawal = miss
    this.#client.timers.set(this, Infinity)
    claimRuntime.withdraw()
  }

  #miss(miss: Miss): void {
    this.#end()
    this.missed(miss)
  }

  #end(): void {
    this.#over = true
    const { timers, waiters } = this.#client
    timers.set(this, Infinity)
    if (waiters.delete(this)) timers.unhold()
    const { signal } = this.#waitPolicy
    if (this.#abort !== undefined && signal !== undefined) stopListeningForAbort(signal, this.#abort)
  }
}
