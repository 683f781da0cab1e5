import type { Backoff } from '../time/backoff.ts'
import type { Claim, Request, ClaimStatus, Succession, Notification, AbsentStatus } from '../contract/driver.ts'
import type { RenewalSchedule } from './renewal-schedule.ts'

/**
 * asking: sent, not answered. waiting: queued. held. lost: ended against its owner's will. releasing: being released, by
 * its owner or because its outcome is not known. over: nothing is left to do.
 */
export type ClaimPhase = 'asking' | 'waiting' | 'held' | 'lost' | 'releasing' | 'over'

/**
 * A claim as its client knows it. Times are whole milliseconds, rounded to the safe side: a fraction would be an object of
 * its own in every claim state, and most of the garbage of a renewal.
 */
export interface ClaimState {
  readonly phase: ClaimPhase
  readonly claim: Claim
  /** The ttl in force: `renew` may have changed it. */
  readonly ttlMs: number
  /** How often to renew; Infinity: only when the owner asks for it. */
  readonly heartbeatMs: number
  /** How to poll while waiting, if the store cannot push. */
  readonly polling: Backoff | undefined
  /** When to renew; undefined: a whole heartbeat after the last renewal. */
  readonly schedule: RenewalSchedule | undefined
  /**
   * When the request was sent whose answer granted the claim, or that was answered last before a pushed grant. Known only of
   * claims with a longest hold, which counts from it.
   */
  readonly grantSentAt: number | undefined
  /** When the request was sent whose answer set the present end of the claim. */
  readonly sentAt: number
  /** Until when the answered end of the claim can be trusted. */
  readonly deadline: number
  /**
   * The shortest ttl of the requests that were never answered, any of which may still be carried out. Undefined: all were
   * answered. Not Infinity, which would be an object of its own in every claim state.
   */
  readonly doubtMs: number | undefined
  /** The shortest ttl for which another thread may be renewing; undefined: none does. */
  readonly elsewhereMs: number | undefined
  /** When a request of this thread was last answered. */
  readonly answeredAt: number
  /** When to renew or poll next. */
  readonly nextAt: number
  /** A claim or renewal is on its way. */
  readonly inFlight: boolean
  /** Renew once more when the request on its way is answered. */
  readonly askAgain: boolean
  /** Failed renewals, or unanswered polls, in a row. */
  readonly failures: number
  readonly lastError: unknown
  /** When a third of the lease is all that is left. Infinity once the owner has been warned. */
  readonly dangerAt: number
  readonly leaving: string | undefined
  /** Whether a conversion is to take this claim's place. In doubt: the store no longer knows the claim, so it may have. */
  readonly converting: 'no' | 'under way' | 'in doubt'
  /** The longest hold of a lease that came of a conversion: the store counts from the grant of the conversion only. */
  readonly hold: LongestHold | undefined
  /** The owner no longer waits for the claim: unless it is held, the next request withdraws it. */
  readonly withdrawn: boolean
  /** A copy to change before it is used. */
  copy(): ClaimStateDraft
  /** The state itself, to change: only for the claim's runtime, and only while nothing else has this state. */
  inPlace(): ClaimStateDraft
}

/** What most claims never need. All claims that have changed none of it share one object. */
interface UnusualState extends Pick<
  ClaimState,
  | 'grantSentAt'
  | 'doubtMs'
  | 'elsewhereMs'
  | 'askAgain'
  | 'failures'
  | 'lastError'
  | 'leaving'
  | 'converting'
  | 'withdrawn'
> {
  /** The ttl in force; undefined: that of the claim. */
  readonly ttlMs: number | undefined
}

const usual: UnusualState = {
  ttlMs: undefined,
  grantSentAt: undefined,
  doubtMs: undefined,
  elsewhereMs: undefined,
  askAgain: false,
  failures: 0,
  lastError: undefined,
  leaving: undefined,
  converting: 'no',
  withdrawn: false,
}

/**
 * A claim state that may still be changed. A process may hold very many claims, and each step makes a state: so a state has
 * fields of its own only for what differs from claim to claim, and shares the rest until it changes.
 */
export class ClaimStateDraft implements ClaimState {
  readonly claim: Claim
  phase: ClaimPhase = 'asking'
  sentAt: number
  deadline: number
  answeredAt = -1
  inFlight = true
  // Undefined for Infinity, which would be an object of its own.
  #nextAt: number | undefined
  #dangerAt: number | undefined
  #policy: RenewalPolicy
  #unusual = usual

  /** A claim that is being sent. */
  constructor(claim: Claim, policy: RenewalPolicy, sentAt: number, deadline: number) {
    this.claim = claim
    this.sentAt = sentAt
    this.deadline = deadline
    this.#policy = policy
  }

  /** A copy to change before it is used. */
  copy(): ClaimStateDraft {
    const copy = new ClaimStateDraft(this.claim, this.#policy, this.sentAt, this.deadline)
    copy.phase = this.phase
    copy.answeredAt = this.answeredAt
    copy.inFlight = this.inFlight
    copy.#nextAt = this.#nextAt
    copy.#dangerAt = this.#dangerAt
    copy.#unusual = this.#unusual
    return copy
  }

  inPlace(): this {
    return this
  }

  get ttlMs(): number {
    return this.#unusual.ttlMs ?? this.claim.ttlMs
  }
  set ttlMs(ttlMs: number) {
    if (ttlMs !== this.ttlMs) this.#unusual = { ...this.#unusual, ttlMs }
  }

  get grantSentAt(): number | undefined {
    return this.#unusual.grantSentAt
  }
  set grantSentAt(grantSentAt: number | undefined) {
    this.#unusual = { ...this.#unusual, grantSentAt }
  }

  get nextAt(): number {
    return this.#nextAt ?? Infinity
  }
  set nextAt(at: number) {
    this.#nextAt = at === Infinity ? undefined : at
  }

  get dangerAt(): number {
    return this.#dangerAt ?? Infinity
  }
  set dangerAt(at: number) {
    this.#dangerAt = at === Infinity ? undefined : at
  }

  get heartbeatMs(): number {
    return this.#policy.heartbeatMs
  }
  set heartbeatMs(heartbeatMs: number) {
    this.#policy = { ...this.#policy, heartbeatMs }
  }

  get polling(): Backoff | undefined {
    return this.#policy.polling
  }

  get schedule(): RenewalSchedule | undefined {
    return this.#policy.schedule
  }

  get hold(): LongestHold | undefined {
    return this.#policy.hold
  }

  get doubtMs(): number | undefined {
    return this.#unusual.doubtMs
  }
  set doubtMs(doubtMs: number | undefined) {
    if (doubtMs !== this.doubtMs) this.#unusual = { ...this.#unusual, doubtMs }
  }

  get elsewhereMs(): number | undefined {
    return this.#unusual.elsewhereMs
  }
  set elsewhereMs(elsewhereMs: number | undefined) {
    if (elsewhereMs !== this.elsewhereMs) this.#unusual = { ...this.#unusual, elsewhereMs }
  }

  get askAgain(): boolean {
    return this.#unusual.askAgain
  }
  set askAgain(askAgain: boolean) {
    if (askAgain !== this.askAgain) this.#unusual = { ...this.#unusual, askAgain }
  }

  get failures(): number {
    return this.#unusual.failures
  }
  set failures(failures: number) {
    if (failures !== this.failures) this.#unusual = { ...this.#unusual, failures }
  }

  get lastError(): unknown {
    return this.#unusual.lastError
  }
  set lastError(lastError: unknown) {
    if (lastError !== this.lastError) this.#unusual = { ...this.#unusual, lastError }
  }

  get leaving(): string | undefined {
    return this.#unusual.leaving
  }
  set leaving(leaving: string | undefined) {
    if (leaving !== this.leaving) this.#unusual = { ...this.#unusual, leaving }
  }

  get converting(): ClaimState['converting'] {
    return this.#unusual.converting
  }
  set converting(converting: ClaimState['converting']) {
    if (converting !== this.converting) this.#unusual = { ...this.#unusual, converting }
  }

  get withdrawn(): boolean {
    return this.#unusual.withdrawn
  }
  set withdrawn(withdrawn: boolean) {
    if (withdrawn !== this.withdrawn) this.#unusual = { ...this.#unusual, withdrawn }
  }
}

/** What can happen to a claim. `at` is the time on the client's clock. */
export type ClaimEvent =
  /** A claim, a renewal or a withdrawal sent at `sentAt` was answered. `random` is a random number from 0 to 1. */
  | {
      readonly type: 'answer'
      readonly at: number
      readonly sentAt: number
      /** The ttl of the request; Infinity if it has none. */
      readonly askedMs: number
      readonly status: ClaimStatus
      readonly random: number
      /** Another thread sent the request: a request of this thread may still be under way. */
      readonly elsewhere?: boolean
    }
  /** The ttl for which another thread may be renewing has changed. */
  | { readonly type: 'elsewhere'; readonly at: number; readonly ttlMs: number | undefined }
  | { readonly type: 'release-answer'; readonly at: number; readonly status: ClaimStatus; readonly random: number }
  | { readonly type: 'notified'; readonly at: number; readonly notification: Notification }
  /** Time has passed. */
  | { readonly type: 'tick'; readonly at: number }
  /** The owner lets go, or no longer wants to wait. */
  | { readonly type: 'release'; readonly at: number }
  /** The owner of a conversion no longer wants to wait for it. */
  | { readonly type: 'withdraw'; readonly at: number }
  | { readonly type: 'renew'; readonly at: number; readonly ttlMs: number }
  | { readonly type: 'heartbeat'; readonly at: number; readonly everyMs: number }
  /** A conversion of this ttl, which is to take the claim's place, is being sent. Undefined: it was given up. */
  | { readonly type: 'converting'; readonly at: number; readonly ttlMs: number | undefined }
  /** A conversion has taken the claim's place, or another process follows it: no longer ours, and not ended. */
  | { readonly type: 'pass-on'; readonly at: number }

/** What a step asks its runtime to do, or to tell the observer. */
export type ClaimEffect =
  | { readonly type: 'send'; readonly request: Request }
  | { readonly type: 'granted'; readonly fence: number; readonly after: Succession | undefined; readonly at: number }
  | { readonly type: 'queued'; readonly ahead: number }
  /** Not granted, and no claim is left behind. */
  | { readonly type: 'refused'; readonly status: AbsentStatus }
  /** Whether the claim was granted is not known; it is being released. */
  | { readonly type: 'failed'; readonly error: unknown }
  /** `own`: the request was sent by this thread, not by the heartbeat thread. */
  | { readonly type: 'renewed'; readonly own: boolean }
  | { readonly type: 'renewal-failed'; readonly error: unknown; readonly own: boolean }
  /** A request of this thread was answered, and a newer status was known already. */
  | { readonly type: 'answered-late' }
  | { readonly type: 'jeopardy'; readonly reason: string; readonly leftMs: number }
  | { readonly type: 'leaving'; readonly reason: string; readonly leftMs: number }
  | { readonly type: 'lost'; readonly reason: string; readonly detail: string | undefined }
  /** The store's answer to the release; `unknown` if there is none yet. */
  | { readonly type: 'released'; readonly status: ClaimStatus; readonly at: number }

/** The claim state after an event, and the effects of the step. */
export type Stepped = readonly [ClaimState, readonly ClaimEffect[]]

/** Until when a claim may be held at most, and the shortest ttl that the store takes. */
export interface LongestHold {
  readonly until: number
  readonly ttlMinMs: number
}

/** How a claim is renewed and polled for; see the fields of {@link ClaimState}. */
export interface RenewalPolicy {
  readonly heartbeatMs: number
  readonly polling: Backoff | undefined
  readonly schedule: RenewalSchedule | undefined
  readonly hold?: LongestHold | undefined
}

/** A request of this thread has renewed the claim. */
export const ownRenewal: Extract<ClaimEffect, { type: 'renewed' }> = { type: 'renewed', own: true }

/** No effects: nothing to do. */
export const noEffects: readonly ClaimEffect[] = []
