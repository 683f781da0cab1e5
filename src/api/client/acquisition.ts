import { unsupported, LeaseholdError, retryAfterOf, worthRetrying, type DeadlockedOwner } from '../../core/errors.ts'
import { listenForAbort, stopListeningForAbort } from './abort-listeners.ts'
import type { Client } from './client.ts'
import { claimant } from './runner.ts'
import { adaptivePolling, pauseMs, pausesMs, retryPresets, type Backoff } from '../../core/time/backoff.ts'
import { afterReading } from '../../core/time/bounded.ts'
import type { TimerBucket, TimerTask } from '../../core/time/timer-queue.ts'
import { ClaimRuntime, type ClaimObserver, type ObservedEffect } from '../../core/client/claim-runtime.ts'
import type { RenewalPolicy } from '../../core/client/claim-step.ts'
import type { SlotMember } from '../../core/client/slot-set.ts'
import type { AbsentReason, AbsentStatus, Claim, Mode, Runner } from '../../core/contract/driver.ts'
import { requestBounds } from '../../core/contract/bounds.ts'
import { storeKey, type Scope } from '../../core/contract/scope.ts'
import type { AcquireTerms } from '../options.ts'
import type { WatchedWait } from '../owners/deadlock-watch.ts'

/** How a scope is shared. */
export interface Sharing {
  readonly mode: Mode
  readonly limit?: number
  /** The id of the held claim whose place is to be taken. */
  readonly replaces?: string
}

/** The sharing of a plain lock: one holder at a time. */
export const exclusively: Sharing = { mode: 'exclusive' }

/** What one acquire asks for, checked. */
export interface AcquireRequest {
  readonly scope: Scope
  readonly sharing: Sharing
  readonly terms: AcquireTerms
  /** 0: do not wait. Infinity: as long as it takes. */
  readonly waitMs: number
}

/** The claim is held: the effect of `claim-step.ts` itself, so that nothing is copied. */
export type ClaimGrant = Extract<ObservedEffect, { type: 'granted' }>

/** How an acquisition ended without a grant. Contention is an outcome, not an error. */
export type Miss =
  | { readonly type: 'refused'; readonly status: AbsentStatus }
  /** `error`: why the store could not be asked, if that is what used up the time. */
  | { readonly type: 'timeout'; readonly ahead: number | undefined; readonly error: unknown }
  | { readonly type: 'aborted' }
  | { readonly type: 'closed' }
  /** The owners of a cycle wait for each other, and this acquisition was chosen to give way. */
  | { readonly type: 'deadlocked'; readonly cycle: readonly DeadlockedOwner[] }
  | { readonly type: 'failed'; readonly error: unknown }

/**
 * Called exactly once: from `start` if the signal has fired already, else later. Must not throw, since timers and answers call
 * it. A grant must become a lease before this returns: what happens to the claim next is told to the lease.
 */
export type OnOutcome = (outcome: ClaimGrant | Miss, acquisition: Acquisition) => void

/** How many claims a call that does not wait may make, if the store loses each before it can say who holds the lock. */
const claimsWithoutWaiting = 3

/** Whether the miss is due to other holders or to the end of the claim itself, and not to what the claim asked for. */
export function isContention(miss: Miss): boolean {
  return miss.type === 'refused' && mayFareBetter(miss.status.reason)
}

/** Whether a new claim may fare better than a claim that ended this way. */
function mayFareBetter(reason: AbsentReason): boolean {
  return reason !== 'deadlock' && reason !== 'mismatch'
}

/** Throws UNSUPPORTED if the store cannot lock this scope, or cannot share it like this. */
export function refuseUnsupported({ driver }: Client, scope: Scope, sharing: Sharing): void {
  const { supports } = driver
  if (scope.range !== undefined && !supports.range) throw unsupported('byte ranges')
  if (sharing.mode === 'shared' && !supports.shared) throw unsupported('shared locks')
  if (sharing.limit !== undefined && !supports.limit) throw unsupported('semaphores')
}

/**
 * Follows one acquire over as many attempts as it takes. Each attempt is a claim of its own: a store that queues needs one,
 * other stores are asked again after growing pauses. Ends with a grant or with a miss, and after a miss no claim is left
 * behind. Whoever started the acquisition turns the grant into a lease.
 */
export class Acquisition implements TimerTask, SlotMember, ClaimObserver, WatchedWait {
  timerSlot = -1
  timerBucket: TimerBucket | undefined
  setSlot = -1
  /** Claims sent so far. */
  attempts = 0
  readonly client: Client
  readonly request: AcquireRequest
  /** The store's key of the scope. */
  readonly key: string
  /** When the acquisition began. */
  readonly since: number
  readonly #policy: RenewalPolicy
  readonly #until: number
  readonly #mayQueue: boolean
  readonly #runner: Runner
  readonly #onOutcome: OnOutcome
  #claimRuntime: ClaimRuntime<Client> | undefined
  #failures = 0
  #ahead: number | undefined
  #error: unknown
  /** When the next attempt is due, while pausing between two. */
  #pauseUntil = Infinity
  /** When the place in the queue is given up although there is time left. */
  #queueUntil = Infinity
  #contended = false
  #over = false
  /** Why the conversion was given up, while the store is asked to withdraw its claim. */
  #withdrawal: Miss | undefined
  #abort: (() => void) | undefined

  /** Throws for a closed client, for bad metadata, and for what the store does not support. */
  constructor(client: Client, request: AcquireRequest, onOutcome: OnOutcome) {
    const { scope, sharing, terms, waitMs } = request
    // A caller that asks for one lock after another may have been overtaken by the client's end.
    client.refuseIfClosed()
    refuseUnsupported(client, scope, sharing)
    const { environment } = client
    const { supports } = client.driver
    this.client = client
    this.request = request
    this.key = storeKey(client.namespace, scope.key)
    this.since = environment.now()
    this.#policy = client.renewalPolicy(terms)
    // A call that does not wait is bounded by the ttl of its one claim.
    this.#until = waitMs === 0 ? Infinity : this.since + waitMs
    // If `retry` allows one attempt only, the claim asks once and does not queue.
    this.#mayQueue = waitMs > 0 && supports.queue && terms.waitPolicy.queueMs !== 0
    this.#runner = claimant(client.runner, terms.owner, terms.metadata, this.#holds())
    this.#onOutcome = onOutcome
  }

  /** The scope keys that its owner holds, for the deadlock detection of other clients; none if nobody will see it wait. */
  #holds(): readonly string[] {
    const { supports } = this.client.driver
    if (!this.#mayQueue || this.owner === undefined || supports.owners === false) return []
    return this.client.owners.keysHeldBy(this.owner, requestBounds.holdsMax)
  }

  /** The runtime of the granted claim. Only after a grant. */
  get claimRuntime(): ClaimRuntime<Client> {
    return this.#claimRuntime as ClaimRuntime<Client>
  }

  /** The id of the claim that is under way. */
  get claimId(): string | undefined {
    return this.#claimRuntime?.state.claim.id
  }

  /** The owner on whose behalf the acquisition waits. */
  get owner(): string | undefined {
    return this.request.terms.owner
  }

  /** What the acquisition waits for, and as whom. */
  get wanted(): { readonly mode: Mode; readonly runner: Runner } {
    return { mode: this.request.sharing.mode, runner: this.#runner }
  }

  /** How long the acquisition has taken so far. */
  get waitedMs(): number {
    return Math.round(this.client.environment.now() - this.since)
  }

  /** Sends the first claim. */
  start(): void {
    const { signal } = this.request.terms.waitPolicy
    // The caller's signal first: its `addEventListener` may throw.
    if (signal !== undefined && !signal.aborted) {
      this.#abort = (): void => this.#giveUp({ type: 'aborted' })
      listenForAbort(signal, this.#abort)
    }
    this.client.acquisitions.add(this)
    this.client.timers.hold()
    if (signal?.aborted === true) return this.#miss({ type: 'aborted' })
    this.#attempt(this.since)
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
    if (now >= Math.min(this.#until, this.#queueUntil)) afterReading(this.client.environment, () => this.#outOfTime())
    else if (now >= this.#pauseUntil) this.#attempt(now)
    else this.#setTimer()
  }

  /** Hears what becomes of the present attempt. */
  observe(effect: ObservedEffect): void {
    if (this.#over) return
    switch (effect.type) {
      case 'granted':
        this.#end()
        return this.#onOutcome(effect, this)
      case 'queued':
        this.#ahead = effect.ahead
        this.#error = undefined
        this.#boundQueue()
        return this.#onQueued(effect.ahead)
      case 'refused':
        return this.#onRefused(effect.status)
      case 'failed':
        return this.#onFailed(effect.error)
      case 'renewal-failed':
        this.#error = effect.error
        // Where grants are pushed, a claim in the queue needs no poll.
        if (!this.client.driver.supports.push && this.#isTooLate(retryAfterOf(effect.error))) this.#outOfTime()
        return
      default:
        return
    }
  }

  #attempt(now: number): void {
    this.#pauseUntil = Infinity
    this.attempts += 1
    this.#setTimer()
    this.#claimRuntime = ClaimRuntime.begin(this.client, this.#newClaim(), this.#policy, this, now)
  }

  /** A claim with a fresh id: an id that was answered absent is never claimed again. Must not throw: timers call it. */
  #newClaim(): Claim {
    const { scope, sharing, terms } = this.request
    const { priority, evict, staleMs, ttlMs, graceMs, maxHoldMs, detached } = terms
    const { mode, limit, replaces } = sharing
    const { range } = scope
    const claim: Claim = {
      id: this.client.environment.id(),
      key: this.key,
      mode,
      priority,
      wait: this.#mayQueue,
      ttlMs,
      graceMs,
      runner: this.#runner,
    }
    // Most claims have none of these fields, and a claim is kept in memory for as long as it is held.
    const wantsNone = limit === undefined && range === undefined && evict === undefined && maxHoldMs === undefined
    const staysAlone = replaces === undefined && detached === undefined
    if (wantsNone && staysAlone) return claim
    return { ...claim, limit, range, evict, staleMs, maxHoldMs, replaces, detached }
  }

  #onQueued(ahead: number): void {
    this.#contend()
    this.client.deadlocks?.watch(this)
    this.client.emitForLock('waiting', this.request.scope, { key: this.key, ahead })
  }

  #onRefused(status: AbsentStatus): void {
    if (this.#withdrawal !== undefined) return this.#miss(this.#withdrawal)
    const { waitMs, terms } = this.request
    const { retry, polling } = terms.waitPolicy
    const isRefused = status.reason === 'refused'
    // A claim that the store has lost does not say who holds the lock: even a call that does not wait asks again.
    const claimsMax = isRefused ? 1 : Math.min(claimsWithoutWaiting, retry?.attempts ?? Infinity)
    const isLast = waitMs === 0 && this.attempts >= claimsMax
    if (isLast || !this.#worthAsking(status.reason)) return this.#miss({ type: 'refused', status })
    if (isRefused) this.#onQueued(0)
    this.#tryAgain(waitMs === 0 ? adaptivePolling : (retry ?? polling ?? adaptivePolling))
  }

  #worthAsking(reason: AbsentReason): boolean {
    const { sharing, terms } = this.request
    if (terms.endsWhenEvicted === true && reason === 'evicted') return false
    // The lease that a conversion was to replace does not come back.
    const asksAgain = sharing.replaces === undefined || reason === 'refused' || reason === 'expired'
    return mayFareBetter(reason) && asksAgain
  }

  #onFailed(error: unknown): void {
    if (this.#withdrawal !== undefined) return this.#miss(this.#withdrawal)
    this.#error = error
    const { waitMs, terms } = this.request
    const { retry, polling } = terms.waitPolicy
    const attemptsMax = (retry ?? retryPresets.standard).attempts
    if (waitMs === 0 || !worthRetrying(error) || this.attempts >= attemptsMax) {
      return this.#miss({ type: 'failed', error })
    }
    const retryAfterMs = retryAfterOf(error)
    if (this.#isTooLate(retryAfterMs)) return this.#miss({ type: 'failed', error })
    this.#tryAgain(retry ?? polling ?? retryPresets.standard, retryAfterMs)
  }

  /**
   * Whether the store takes requests again only when this acquisition has given up: when `wait` is over, or where that is endless, after
   * the pauses between the attempts at a store that fails.
   */
  #isTooLate(retryAfterMs: number): boolean {
    if (retryAfterMs === 0) return false
    const { retry } = this.request.terms.waitPolicy
    const until = this.#until === Infinity ? this.since + pausesMs(retry ?? retryPresets.standard) : this.#until
    return this.client.environment.now() + retryAfterMs > until
  }

  #tryAgain(backoff: Backoff, atLeastMs = 0): void {
    if (this.attempts >= backoff.attempts) {
      return this.#miss({ type: 'timeout', ahead: this.#ahead, error: this.#error })
    }
    const { environment } = this.client
    this.#failures += 1
    const pause = pauseMs(backoff, this.#failures, environment.random())
    this.#pauseUntil = environment.now() + Math.max(pause, atLeastMs)
    this.#setTimer()
  }

  #setTimer(): void {
    this.client.timers.set(this, Math.min(this.#until, this.#queueUntil, this.#pauseUntil))
  }

  /** `queueMs` counts from the first place in a queue: until then attempts are counted themselves. */
  #boundQueue(): void {
    const { queueMs } = this.request.terms.waitPolicy
    if (queueMs === undefined || this.#queueUntil !== Infinity) return
    this.#queueUntil = this.client.environment.now() + queueMs
    this.#setTimer()
  }

  #outOfTime(): void {
    this.#giveUp({ type: 'timeout', ahead: this.#ahead, error: this.#error ?? this.#noAnswer() })
  }

  /** If the store has not answered at all, that is the reason, and not a holder. */
  #noAnswer(): LeaseholdError | undefined {
    if (this.#claimRuntime?.state.phase !== 'asking') return undefined
    return new LeaseholdError('UNAVAILABLE', 'The store has not answered.', { reason: 'no-answer' })
  }

  /** Ends without a grant: the claim is released by its id, granted or not. */
  #giveUp(miss: Miss): void {
    if (this.#over) return
    const claimRuntime = this.#claimRuntime
    // A conversion that was granted unheard is all its owner has: only its place in the queue may be given up. A client that
    // closes lets go of everything anyway.
    const mayWithdraw = this.request.sharing.replaces !== undefined && miss.type !== 'closed'
    if (mayWithdraw && claimRuntime?.undecided === true) return this.#withdraw(claimRuntime, miss)
    this.#miss(miss)
    claimRuntime?.release()
  }

  /** Ends once the store has said whether the withdrawal came in time. */
  #withdraw(claimRuntime: ClaimRuntime, miss: Miss): void {
    if (this.#withdrawal !== undefined) return
    this.#withdrawal = miss
    this.client.timers.set(this, Infinity)
    claimRuntime.withdraw()
  }

  #miss(miss: Miss): void {
    this.#end()
    if (miss.type === 'refused' && miss.status.reason === 'refused') this.#contend()
    this.#onOutcome(miss, this)
  }

  #end(): void {
    this.#over = true
    const { timers, acquisitions, deadlocks } = this.client
    timers.set(this, Infinity)
    if (acquisitions.delete(this)) timers.unhold()
    const { signal } = this.request.terms.waitPolicy
    if (this.#abort !== undefined && signal !== undefined) stopListeningForAbort(signal, this.#abort)
    deadlocks?.unwatch(this)
  }

  /** Counts contention once an acquisition, however many claims it makes. */
  #contend(): void {
    if (!this.#contended) this.client.emitForLock('contention', this.request.scope, { key: this.key })
    this.#contended = true
  }
}
