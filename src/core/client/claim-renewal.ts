import { trustedUntil } from '../time/deadline.ts'
import {
  copyState,
  noEffects,
  type ClaimState,
  type ClaimStateDraft,
  type Stepped,
  type ClaimEffect,
  type ClaimEvent,
} from './claim-state.ts'
import { LeaseholdError } from '../errors.ts'
import { pauseMs, type Backoff } from '../time/backoff.ts'

/** When to renew a lease that was given or renewed at `sentAt`; never, if its holder does that by hand. */
export function holderRenewalAt(state: ClaimState, sentAt: number, at: number): number {
  if (state.heartbeatMs === Infinity) return Infinity
  // What may be carried out yet ends the lease sooner than its ttl says: keep its pace.
  return nextRenewalAt(
    heartbeatWithin(state.heartbeatMs, Math.min(state.ttlMs, boundOf(state))),
    state.jitter,
    sentAt,
    at,
  )
}

/** What no answer can be trusted beyond: something shorter may be carried out after it. */
export function boundOf({ doubtMs, elsewhereMs }: Pick<ClaimState, 'doubtMs' | 'elsewhereMs'>): number {
  return Math.min(doubtMs ?? Infinity, elsewhereMs ?? Infinity)
}

/** Another thread has been told to renew for this ttl, as if we asked for it now; or has stopped: then we ask for all. */
export function askedElsewhere(state: ClaimState, elsewhereMs: number | undefined, at: number): Stepped {
  const next = copyState(state)
  next.elsewhereMs = elsewhereMs
  if (state.phase === 'held' && elsewhereMs !== undefined) trustAtMost(next, elsewhereMs, at)
  const wasBound = (state.elsewhereMs ?? Infinity) < Math.min(state.ttlMs, boundOf(next))
  return wasBound && state.phase === 'held' && state.leaving === undefined ? renewNow(next, at) : [next, noEffects]
}

/** A heartbeat that leaves no room for a failure is quickened: `renew` may have made the ttl shorter since it was chosen. */
export function heartbeatWithin(heartbeatMs: number, ttlMs: number): number {
  return heartbeatMs > ttlMs / 2 ? ttlMs / 3 : heartbeatMs
}

/** A waiter keeps its place by itself, whatever its owner wants to do by hand once it holds. */
export function waiterRenewalAt(state: ClaimState, sentAt: number, at: number): number {
  return nextRenewalAt(Math.min(state.heartbeatMs, state.ttlMs / 3), state.jitter, sentAt, at)
}

/** Different for each claim: keeps the heartbeats of leases taken together from staying together. Takes a number below 1. */
export function jitterOf(random: number): number {
  return Math.floor(random * 101)
}

/** Renewals fall on a common beat, so that many share a batch, and a little early, each by its own amount. */
export function nextRenewalAt(everyMs: number, jitter: number, sentAt: number, at: number): number {
  const tickMs = Math.min(250, Math.max(1, everyMs / 40))
  const dueAt = sentAt + everyMs * (0.9 + 0.001 * jitter)
  return Math.max(at, Math.floor(Math.floor(dueAt / tickMs) * tickMs))
}

export function withTtl(state: ClaimState, ttlMs: number): ClaimState {
  const changed = copyState(state)
  changed.ttlMs = ttlMs
  return changed
}

export function renewNow(state: ClaimState, at: number): Stepped {
  const next = copyState(state)
  if (state.inFlight) {
    next.askAgain = true
    return [next, noEffects]
  }
  next.inFlight = true
  const { key, id } = state.claim
  if (state.withdrawn && state.phase !== 'held') {
    return [next, [{ type: 'send', request: { op: 'withdraw', key, id } }]]
  }
  const ttlMs = askedTtlMs(state, at)
  trustAtMost(next, ttlMs, at)
  return [next, [{ type: 'send', request: { op: 'renew', key, id, ttlMs } }]]
}

/** The ttl to renew for. The store does not know how long a converted lease may still be held: no more is asked for. */
function askedTtlMs({ ttlMs, hold }: ClaimState, at: number): number {
  return hold === undefined ? ttlMs : Math.min(ttlMs, Math.max(hold.ttlMinMs, Math.ceil(hold.until - at)))
}

/** A deadline that is not after the longest hold. */
export function withinHold({ hold }: ClaimState, deadline: number): number {
  return hold === undefined ? deadline : Math.min(deadline, Math.floor(hold.until))
}

/**
 * When to warn the owner of a lease for `ttlMs` that ends at `deadline`: a third of the lease before. Infinity if the owner
 * has been warned of this end: renewals near the longest hold move it by no more than the drift margin.
 */
export function dangerAt(state: ClaimState, deadline: number, ttlMs: number): number {
  const leaseMs = Math.min(ttlMs, boundOf(state), state.claim.maxHoldMs ?? Infinity)
  const wasWarned = state.phase === 'held' && state.dangerAt === Infinity
  if (wasWarned && Math.abs(deadline - state.deadline) <= leaseMs / 20 + 3) return Infinity
  return Math.floor(deadline - leaseMs / 3)
}

/** A shorter ttl counts from when it is asked for: it may come into force although nobody hears of it. */
export function trustAtMost(state: ClaimStateDraft, ttlMs: number, at: number): void {
  const deadline = trustedUntil(at, ttlMs)
  if (deadline >= state.deadline) return
  state.dangerAt = dangerAt(state, deadline, ttlMs)
  state.deadline = deadline
}

/** Sends the claim once more, as it was: its id makes that safe. */
export function claimAgain(state: ClaimState): Stepped {
  const asking = copyState(state)
  asking.inFlight = true
  asking.nextAt = Infinity
  return [asking, [{ type: 'send', request: { op: 'claim', claim: state.claim } }]]
}

/** Changes how often a lease is renewed. */
export function renewEvery(state: ClaimState, everyMs: number, at: number): Stepped {
  const changed = copyState(state)
  changed.heartbeatMs = everyMs
  if (state.phase === 'held' && state.leaving === undefined) changed.nextAt = holderRenewalAt(changed, state.sentAt, at)
  return [changed, noEffects]
}

const releaseRetry: Backoff = { attempts: Infinity, minMs: 50, maxMs: 2000, factor: 2, jitter: 0.2 }

/** Ended against its owner's will. */
export function lose(state: ClaimState, reason: string, detail: string | undefined): Stepped {
  return [ended(state, 'lost'), [{ type: 'lost', reason, detail }]]
}

/** A claim that is to take this one's place is under way, or has come to nothing. */
export function conversionUnderWay(
  state: ClaimState,
  { at, ttlMs }: Extract<ClaimEvent, { type: 'converting' }>,
): Stepped {
  const underWay = ttlMs !== undefined
  const next = copyState(state)
  next.converting = underWay ? 'under way' : 'no'
  // As if the lease itself were to last no longer.
  if (underWay && ttlMs < state.ttlMs) {
    next.doubtMs = Math.min(state.doubtMs ?? Infinity, ttlMs)
    trustAtMost(next, ttlMs, at)
  }
  // Nobody took its place and the store no longer knows it: it was gone all along.
  const wasGone = !underWay && state.phase === 'held' && state.converting === 'in doubt'
  return wasGone ? lose(next, 'unknown', undefined) : [next, noEffects]
}

/** Lives on as another claim, or in another process. */
export function passOn(state: ClaimState): Stepped {
  return [state.phase === 'held' ? ended(state, 'over') : state, noEffects]
}

/** Why a lease that is past its deadline was not renewed. */
export function whyOver(state: ClaimState): string {
  const { maxHoldMs } = state.claim
  // The store's word on the longest hold comes too late for a holder that stops first: near its end is near enough.
  const nearMs = state.ttlMs / 20 + 3
  const longest = maxHoldMs === undefined ? Infinity : trustedUntil(state.grantSentAt, maxHoldMs)
  const heldLongest = state.deadline >= Math.min(longest, state.hold?.until ?? Infinity) - nearMs
  return state.leaving ?? (heldLongest ? 'max-hold' : 'expired')
}

/** The owner lets go, or no longer wants to wait. */
export function letGo(state: ClaimState, at: number): Stepped {
  switch (state.phase) {
    case 'asking':
    case 'waiting':
    case 'held':
      return leave(state, at, 'release')
    case 'lost':
      // The store may still keep it, in its grace: say that we are gone.
      return [state, [releaseRequest(state)]]
    case 'releasing':
    case 'over':
      return [state, noEffects]
  }
}

/** Takes a conversion back, if that is not too late: then it is granted after all. */
export function withdraw(state: ClaimState, at: number): Stepped {
  if (state.phase !== 'asking' && state.phase !== 'waiting') return [state, noEffects]
  const withdrawn = copyState(state)
  withdrawn.withdrawn = true
  return renewNow(withdrawn, at)
}

/**
 * Leaves nothing behind of a claim whose outcome is not known, or came too late. A conversion that was granted must stay
 * until its time is over: its owner may trust the lease whose place it took.
 */
export function clearAway(state: ClaimState, at: number, effect: ClaimEffect): Stepped {
  const [releasing, requests] = leave(state, at, state.claim.replaces === undefined ? 'release' : 'withdraw')
  return [releasing, [effect, ...requests]]
}

/** Tells the store, and goes on trying for as long as that may keep the claim. */
function leave(state: ClaimState, at: number, how: 'release' | 'withdraw'): Stepped {
  const deadline = Math.ceil(at + state.ttlMs + state.claim.graceMs)
  const releasing = copyState(state)
  releasing.phase = 'releasing'
  releasing.failures = 0
  releasing.deadline = deadline
  releasing.inFlight = true
  releasing.nextAt = Infinity
  releasing.withdrawn = how === 'withdraw'
  return [releasing, [releaseRequest(releasing)]]
}

/** The last release was not answered. */
export function releaseAgain(state: ClaimState): Stepped {
  const releasing = copyState(state)
  releasing.inFlight = true
  releasing.nextAt = Infinity
  return [releasing, [releaseRequest(state)]]
}

/** A driver that never answers: by now the store has forgotten the claim by itself, and its owner waits no longer. */
export function releaseUnanswered(state: ClaimState, at: number): Stepped {
  const error = new LeaseholdError('UNAVAILABLE', 'The store has not answered.', { reason: 'no-answer' })
  const isFirst = state.failures === 0
  return [ended(state, 'over'), isFirst ? [{ type: 'released', status: { state: 'unknown', error }, at }] : noEffects]
}

function releaseRequest({ claim, withdrawn }: ClaimState): ClaimEffect {
  return { type: 'send', request: { op: withdrawn ? 'withdraw' : 'release', key: claim.key, id: claim.id } }
}

/** The store has, or has not, heard that the claim is released. */
export function releaseAnswered(state: ClaimState, event: Extract<ClaimEvent, { type: 'release-answer' }>): Stepped {
  const { status, at, random } = event
  if (state.phase !== 'releasing')
    return [state, state.phase === 'lost' ? [{ type: 'released', status, at }] : noEffects]
  const isFirst = state.failures === 0
  const effects: ClaimEffect[] = isFirst || status.state !== 'unknown' ? [{ type: 'released', status, at }] : []
  if (status.state !== 'unknown') return [ended(state, 'over'), effects]
  const failures = state.failures + 1
  const nextAt = at + pauseMs(releaseRetry, failures, random)
  // Past its ttl the store has forgotten the claim by itself.
  if (nextAt >= state.deadline) return [ended(state, 'over'), effects]
  const next = copyState(state)
  next.inFlight = false
  next.failures = failures
  next.nextAt = nextAt
  return [next, effects]
}

function ended(state: ClaimState, phase: 'lost' | 'over'): ClaimState {
  const next = copyState(state)
  next.phase = phase
  next.inFlight = false
  next.nextAt = Infinity
  return next
}
