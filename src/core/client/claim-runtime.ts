import type { TimerQueue, TimerTask, TimerBucket } from '../time/timer-queue.ts'
import type { Batcher, Requester } from './batcher.ts'
import type { Claim, Request, ClaimStatus, Notification } from '../contract/driver.ts'
import type { Environment } from '../time/environment.ts'
import type { IdTable } from './id-table.ts'
import {
  begin,
  heartbeatWithin,
  step,
  wakeAt,
  type ClaimEffect,
  type ClaimEvent,
  type ClaimState,
  type RenewalPolicy,
  type Stepped,
} from './claim-step.ts'
import { ownRenewal } from './claim-state.ts'
import { renewedInPlace, renewInPlace } from './renewal-in-place.ts'

/** What the claims of one client share. Implemented by the client of `api/client/`; a test may implement it too. */
export interface ClientRuntime {
  readonly environment: Environment
  readonly batcher: Batcher
  readonly timers: TimerQueue
  /** The client's claims that are not over, by id. */
  readonly claimRuntimes: IdTable<ClaimRuntime>
  /** Renews held claims while this thread is blocked; see `heartbeat-thread.ts`. */
  readonly thread: HeartbeatThread | undefined
}

/** A held claim as another thread renews it. */
export interface RenewedClaim {
  readonly key: string
  readonly id: string
  readonly ttlMs: number
  readonly heartbeatMs: number
  /** When the request was sent whose answer set the present end of the claim. */
  readonly sentAt: number
}

/** A second thread that renews claims while this one is blocked. */
export interface HeartbeatThread {
  /** Renews this claim from now on, instead of as it was told before. */
  watch(claim: RenewedClaim): void
  /** Renews it no more. What it was watched with is reported as settled when nothing of that is unanswered. */
  unwatch(id: string): void
  /** Hands over, now, the answers that came while this thread was busy. */
  drain(): void
  close(): Promise<void>
}

/** What becomes of a claim, as its observer hears it: every effect but a send. */
export type ObservedEffect = Exclude<ClaimEffect, { type: 'send' }>

/** Hears what becomes of a claim. Must not throw. */
export interface ClaimObserver {
  observe(effect: ObservedEffect): void
}

/** Observes a resumed claim until it has a lease. */
const unobserved: ClaimObserver = { observe: () => {} }

/** The thin runtime of one claim: turns the effects of `claim-step.ts` into sends and timers, and their answers into events. */
export class ClaimRuntime<Client extends ClientRuntime = ClientRuntime> implements TimerTask, Requester {
  timerSlot = -1
  timerBucket: TimerBucket | undefined
  readonly #client: Client
  #state: ClaimState
  /** Every ttl for which the other thread renews, until it has reported that ttl as settled. */
  #elsewhere: number[] | undefined
  /** The acquisition that waits for the claim, then the lease that holds it. */
  observer: ClaimObserver

  private constructor(client: Client, observer: ClaimObserver, state: ClaimState) {
    this.#client = client
    this.observer = observer
    this.#state = state
  }

  /** Sends a claim and follows it to its end. The observer hears the effects. */
  static begin<Client extends ClientRuntime>(
    client: Client,
    claim: Claim,
    policy: RenewalPolicy,
    observer: ClaimObserver,
    at: number,
  ): ClaimRuntime<Client> {
    const stepped = begin(claim, policy, at)
    const claimRuntime = new ClaimRuntime(client, observer, stepped[0])
    client.claimRuntimes.set(claim.id, claimRuntime)
    claimRuntime.#carryOut(stepped)
    return claimRuntime
  }

  /**
   * Follows a claim that was granted elsewhere, from a renewal on, and inherits `doubtMs`, the bound set by unanswered
   * renewals of its holder before. Undefined: the renewal was answered too late to trust it.
   */
  static resume<Client extends ClientRuntime>(
    client: Client,
    claim: Claim,
    policy: RenewalPolicy,
    doubtMs: number | undefined,
    answer: { readonly status: ClaimStatus; readonly sentAt: number; readonly at: number },
  ): ClaimRuntime<Client> | undefined {
    const asked = begin(claim, policy, answer.sentAt)[0].copy()
    asked.doubtMs = doubtMs
    const [state] = step(asked, { type: 'answer', ...answer, askedMs: claim.ttlMs, random: 0 })
    if (state.phase !== 'held') return undefined
    const claimRuntime = new ClaimRuntime(client, unobserved, state)
    client.claimRuntimes.set(claim.id, claimRuntime)
    claimRuntime.#carryOut([state, []])
    return claimRuntime
  }

  /** The client of the claim: an accessor, so that a lease that is printed does not show its client. */
  get client(): Client {
    return this.#client
  }

  get state(): ClaimState {
    return this.#state
  }

  /** Whether the claim may still be granted. */
  get undecided(): boolean {
    return this.#state.phase === 'asking' || this.#state.phase === 'waiting'
  }

  release(at = this.#client.environment.now()): void {
    this.#dispatch({ type: 'release', at })
  }

  /** Takes back a conversion, unless it has been granted. */
  withdraw(): void {
    this.#dispatch({ type: 'withdraw', at: this.#client.environment.now() })
  }

  renew(ttlMs: number): void {
    this.#dispatch({ type: 'renew', at: this.#client.environment.now(), ttlMs })
  }

  setHeartbeat(everyMs: number): void {
    this.#dispatch({ type: 'heartbeat', at: this.#client.environment.now(), everyMs })
  }

  /**
   * Announces a conversion of this ttl that is to take the claim's place: the store then forgets the claim, and nothing is
   * lost. Undefined: the conversion was given up.
   */
  converting(ttlMs: number | undefined): void {
    this.#dispatch({ type: 'converting', at: this.#client.environment.now(), ttlMs })
  }

  /** Stops following the claim without ending it: a conversion has its place, or another process follows it. */
  passOn(): void {
    this.#dispatch({ type: 'pass-on', at: this.#client.environment.now() })
  }

  /** A notification about this claim has arrived. */
  onNotification(notification: Notification): void {
    this.#dispatch({ type: 'notified', at: this.#client.environment.now(), notification })
  }

  /** An answer to one of the claim's requests, from wherever it was sent. */
  answered(request: Request, status: ClaimStatus, sentAt: number, at: number): void {
    const isRenewed = request.op === 'renew' && status.state === 'held'
    if (isRenewed && renewedInPlace(this.#state, status, request.ttlMs, sentAt, at)) {
      this.#client.timers.set(this, wakeAt(this.#state))
      return this.observer.observe(ownRenewal)
    }
    const random = status.state === 'held' ? 0 : this.#client.environment.random()
    const isLast = request.op === 'release' || (request.op === 'withdraw' && this.#state.phase === 'releasing')
    if (isLast) this.#dispatch({ type: 'release-answer', at, status, random })
    else this.#dispatch({ type: 'answer', at, sentAt, askedMs: askedMsOf(request), status, random })
  }

  /**
   * The answer to a renewal for `askedMs` that another thread sent, perhaps before it heard of a shorter ttl in force here.
   * `since`: from when on the other thread has held the claim without a break. A renewal after a break does not revive a
   * lease that was over before: in between, a quorum may have passed the lock on and back.
   */
  renewedElsewhere(status: ClaimStatus, sentAt: number, askedMs: number, since = -Infinity): void {
    if (since > this.#state.deadline) return
    const at = this.#client.environment.now()
    const trusted = status.state === 'held' ? { ...status, ttlMs: Math.min(status.ttlMs, this.#state.ttlMs) } : status
    this.#dispatch({ type: 'answer', at, sentAt, askedMs, status: trusted, random: 0, elsewhere: true })
  }

  /** Makes the other thread, if there is one, renew this claim with the ttl in force. */
  renewElsewhere(heartbeatMs: number): void {
    const { thread } = this.#client
    if (thread === undefined) return
    const { claim, ttlMs, sentAt } = this.#state
    thread.watch({ key: claim.key, id: claim.id, ttlMs, heartbeatMs: heartbeatWithin(heartbeatMs, ttlMs), sentAt })
    this.askElsewhere(ttlMs)
  }

  /** A request for this ttl is being sent from elsewhere; see {@link settledElsewhere}. */
  askElsewhere(ttlMs: number): void {
    this.#elsewhere ??= []
    this.#elsewhere.push(ttlMs)
    this.#boundBy(this.#elsewhere)
  }

  stopElsewhere(): void {
    this.#client.thread?.unwatch(this.#state.claim.id)
  }

  /** Every request for this ttl that was sent elsewhere has been answered, and no more will follow. */
  settledElsewhere(ttlMs: number): void {
    const ttls = this.#elsewhere ?? []
    const index = ttls.indexOf(ttlMs)
    if (index < 0) return
    ttls.splice(index, 1)
    this.#boundBy(ttls)
  }

  #boundBy(ttls: readonly number[]): void {
    const ttlMs = ttls.length === 0 ? undefined : Math.min(...ttls)
    if (ttlMs === this.#state.elsewhereMs) return
    this.#dispatch({ type: 'elsewhere', at: this.#client.environment.now(), ttlMs })
  }

  /** Checks the deadline against the clock, without waiting for the timer. Returns the time it read. */
  check(): number {
    const now = this.#client.environment.now()
    if (now >= this.#state.deadline) this.wake(now)
    return now
  }

  wake(now: number): void {
    const renewal = renewInPlace(this.#state, now)
    if (renewal !== undefined) {
      this.#client.timers.set(this, wakeAt(this.#state))
      return this.#client.batcher.submit(renewal, this)
    }
    // Renewals may have gone through elsewhere while this thread was blocked.
    if (now >= this.#state.deadline) this.#client.thread?.drain()
    this.#dispatch({ type: 'tick', at: now })
  }

  #dispatch(event: ClaimEvent): void {
    this.#carryOut(step(this.#state, event))
  }

  #carryOut(stepped: Stepped): void {
    // By number: taking a pair apart by its iterator is slow until it is compiled.
    const state = stepped[0]
    this.#state = state
    const { timers, claimRuntimes } = this.#client
    timers.set(this, wakeAt(state))
    if (state.phase === 'over' || state.phase === 'lost') claimRuntimes.delete(state.claim.id)
    for (const effect of stepped[1]) this.#perform(effect)
  }

  #perform(effect: ClaimEffect): void {
    if (effect.type === 'send') this.#client.batcher.submit(effect.request, this)
    else this.observer.observe(effect)
  }
}

/** The ttl that a request asks for; Infinity if it has none. */
function askedMsOf(request: Request): number {
  if (request.op === 'claim') return request.claim.ttlMs
  return request.op === 'renew' ? request.ttlMs : Infinity
}
