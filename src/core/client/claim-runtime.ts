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
  type Effect,
  type Event,
  type ClaimState,
  type RenewalPolicy,
  type Stepped,
} from './claim-step.ts'

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
  /** When the request was sent that gave the claim its present end. */
  readonly sentAt: number
}

/** A second place to renew from, for when this one is blocked. */
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
export type ObservedEffect = Exclude<Effect, { type: 'send' }>

/** Hears what becomes of a claim. Must not throw. */
export interface ClaimObserver {
  observe(effect: ObservedEffect): void
}

/** Observes a resumed claim until it has a lease. */
const unobserved: ClaimObserver = { observe: () => {} }

/** The thin runtime of one claim: turns the effects of `claim-step.ts` into sends and timers, and their answers into events. */
export class ClaimRuntime implements TimerTask, Requester {
  timerSlot = -1
  timerBucket: TimerBucket | undefined
  readonly #client: ClientRuntime
  #state: ClaimState
  /** Every ttl that the other thread was told to renew for, until it has said that it no longer does. */
  #elsewhere: number[] | undefined
  /** The acquisition that waits for the claim, then the lease that holds it. */
  observer: ClaimObserver

  private constructor(client: ClientRuntime, observer: ClaimObserver, state: ClaimState) {
    this.#client = client
    this.observer = observer
    this.#state = state
  }

  /** Sends a claim and follows it to its end. The follower's policy is read once; its `observe` hears the effects. */
  static begin(client: ClientRuntime, claim: Claim, follower: ClaimObserver & RenewalPolicy, at: number): ClaimRuntime {
    const stepped = begin(claim, follower, at)
    const claimRuntime = new ClaimRuntime(client, follower, stepped[0])
    client.claimRuntimes.set(claim.id, claimRuntime)
    claimRuntime.#carryOut(stepped)
    return claimRuntime
  }

  /**
   * Follows a claim that was granted elsewhere, from a renewal on, and inherits the bound set by unanswered renewals of its
   * holder before. Undefined: the renewal was answered too late to trust it.
   */
  static resume(
    client: ClientRuntime,
    claim: Claim,
    policy: RenewalPolicy & Pick<ClaimState, 'doubtMs'>,
    answer: { readonly status: ClaimStatus; readonly sentAt: number; readonly at: number },
  ): ClaimRuntime | undefined {
    const [asked] = begin(claim, policy, answer.sentAt)
    const [state] = step(
      { ...asked, doubtMs: policy.doubtMs },
      { type: 'answer', ...answer, askedMs: claim.ttlMs, random: 0 },
    )
    if (state.phase !== 'held') return undefined
    const claimRuntime = new ClaimRuntime(client, unobserved, state)
    client.claimRuntimes.set(claim.id, claimRuntime)
    claimRuntime.#carryOut([state, []])
    return claimRuntime
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
   * Says that another claim, of this ttl, is about to take this one's place: the store then forgets this one, and nothing
   * is lost. Undefined: that has come to nothing.
   */
  converting(ttlMs: number | undefined): void {
    this.#dispatch({ type: 'converting', at: this.#client.environment.now(), ttlMs })
  }

  /** Stops following the claim without ending it: another claim has its place, or another process its care. */
  passOn(): void {
    this.#dispatch({ type: 'pass-on', at: this.#client.environment.now() })
  }

  onNotification(notification: Notification): void {
    this.#dispatch({ type: 'notified', at: this.#client.environment.now(), notification })
  }

  /** An answer to one of the claim's requests, from wherever it was sent. */
  answered(request: Request, status: ClaimStatus, sentAt: number, at: number): void {
    const random = status.state === 'held' ? 0 : this.#client.environment.random()
    const isLast = request.op === 'release' || (request.op === 'withdraw' && this.#state.phase === 'releasing')
    if (isLast) this.#dispatch({ type: 'release-answer', at, status, random })
    else this.#dispatch({ type: 'answer', at, sentAt, askedMs: askedMsOf(request), status, random })
  }

  /**
   * The answer to a renewal for `askedMs` that another thread sent. That may not have heard yet of a shorter ttl that is
   * being asked for here, and comes into force after it. `since`: when the other thread began to hold the claim without a
   * break. A renewal behind a break does not bring back what was over before: a quorum may have passed the lock on and got it
   * back in between, from nodes that heard of the claim late.
   */
  renewedElsewhere(status: ClaimStatus, sentAt: number, askedMs: number, since = -Infinity): void {
    if (since > this.#state.deadline) return
    const at = this.#client.environment.now()
    const trusted = status.state === 'held' ? { ...status, ttlMs: Math.min(status.ttlMs, this.#state.ttlMs) } : status
    this.#dispatch({ type: 'answer', at, sentAt, askedMs, status: trusted, random: 0, elsewhere: true })
  }

  /** Has the other thread, if there is one, renew this claim, with the ttl that is in force. */
  renewElsewhere(heartbeatMs: number): void {
    const { thread } = this.#client
    if (thread === undefined) return
    const { claim, ttlMs, sentAt } = this.#state
    thread.watch({ key: claim.key, id: claim.id, ttlMs, heartbeatMs: heartbeatWithin(heartbeatMs, ttlMs), sentAt })
    this.askElsewhere(ttlMs)
  }

  /** A request for this ttl is being sent that is none of the claim's own; see {@link settledElsewhere}. */
  askElsewhere(ttlMs: number): void {
    this.#elsewhere ??= []
    this.#elsewhere.push(ttlMs)
    this.#boundBy(this.#elsewhere)
  }

  stopElsewhere(): void {
    this.#client.thread?.unwatch(this.#state.claim.id)
  }

  /** Nobody else asks for this ttl any more, and nothing of what was asked for is unanswered. */
  settledElsewhere(ttlMs: number): void {
    const told = this.#elsewhere ?? []
    const index = told.indexOf(ttlMs)
    if (index < 0) return
    told.splice(index, 1)
    this.#boundBy(told)
  }

  #boundBy(told: readonly number[]): void {
    const ttlMs = told.length === 0 ? undefined : Math.min(...told)
    if (ttlMs === this.#state.elsewhereMs) return
    this.#dispatch({ type: 'elsewhere', at: this.#client.environment.now(), ttlMs })
  }

  /** Judges the deadline by the clock, without waiting for the alarm. Gives the time it read. */
  check(): number {
    const now = this.#client.environment.now()
    if (now >= this.#state.deadline) this.wake(now)
    return now
  }

  wake(now: number): void {
    // Renewals may have gone through elsewhere while this thread was blocked.
    if (now >= this.#state.deadline) this.#client.thread?.drain()
    this.#dispatch({ type: 'tick', at: now })
  }

  #dispatch(event: Event): void {
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

  #perform(effect: Effect): void {
    if (effect.type === 'send') this.#client.batcher.submit(effect.request, this)
    else this.observer.observe(effect)
  }
}

/** For how long a request would have the claim last. */
function askedMsOf(request: Request): number {
  if (request.op === 'claim') return request.claim.ttlMs
  return request.op === 'renew' ? request.ttlMs : Infinity
}
