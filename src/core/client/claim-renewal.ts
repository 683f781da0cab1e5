import { trustedUntil } from '../time/deadline.ts'
import {
  noEffects,
  type ClaimState,
  type ClaimStateDraft,
  type Stepped,
  type ClaimEffect,
  type ClaimEvent,
} from './claim-state.ts'
import { LeaseholdError } from '../errors.ts'
import { pauseMs, type Backoff } from '../time/backoff.ts'
import { nextRenewalAt } from './renewal-schedule.ts'
import type { Request } from '../contract/driver.ts'

/** When to renew a lease that was granted or renewed at `sentAt`; never, if its holder renews it by hand. */
export function holderRenewalAt(state: ClaimState, sentAt: number, at: number): number {
  if (state.heartbeatMs === Infinity) return Infinity
  // An unanswered renewal for less may still be carried out: renew often enough for that ttl.
  return nextRenewalAt(
    heartbeatWithin(state.heartbeatMs, Math.min(state.ttlMs, boundOf(state))),
    state.schedule,
    sentAt,
    at,
  )
}

/** The shortest ttl that may still come into force after an answer: no answer is trusted for longer. */
export function boundOf({ doubtMs, elsewhereMs }: Pick<ClaimState, 'doubtMs' | 'elsewhereMs'>): number {
  return Math.min(doubtMs ?? Infinity, elsewhereMs ?? Infinity)
}

/**
 * For how long an answer can be trusted: as long as it says, but no longer than the request asked for, nor than an earlier
 * renewal that may still be carried out and shorten the lease.
 */
export function lastsMs(state: ClaimState, ttlMs: number, askedMs: number): number {
  return Math.min(ttlMs, askedMs, boundOf(state))
}

/** Another thread renews for this ttl from now on; or none does any more: then renew for the whole ttl. */
export function askedElsewhere(state: ClaimState, elsewhereMs: number | undefined, at: number): Stepped {
  const next = state.copy()
  next.elsewhereMs = elsewhereMs
  if (state.phase === 'held' && elsewhereMs !== undefined) trustAtMost(next, elsewhereMs, at)
  const wasBound = (state.elsewhereMs ?? Infinity) < Math.min(state.ttlMs, boundOf(next))
  return wasBound && state.phase === 'held' && state.leaving === undefined ? renewNow(next, at) : [next, noEffects]
}

/** The heartbeat, shortened if it leaves no room for a failure: `renew` may have shortened the ttl since it was chosen. */
export function heartbeatWithin(heartbeatMs: number, ttlMs: number): number {
  return heartbeatMs > ttlMs / 2 ? ttlMs / 3 : heartbeatMs
}

/** When to renew a waiting claim: by itself, even if its owner will renew the lease by hand. */
export function waiterRenewalAt(state: ClaimState, sentAt: number, at: number): number {
  return nextRenewalAt(Math.min(state.heartbeatMs, state.ttlMs / 3), state.schedule, sentAt, at)
}

/** The claim state with another ttl. */
export function withTtl(state: ClaimState, ttlMs: number): ClaimState {
  const changed = state.copy()
  changed.ttlMs = ttlMs
  return changed
}

/** Sends a renewal, or a withdrawal; if a request is on its way, once that is answered. */
export function renewNow(state: ClaimState, at: number): Stepped {
  const next = state.copy()
  if (state.inFlight) {
    next.askAgain = true
    return [next, noEffects]
  }
  if (state.withdrawn && state.phase !== 'held') {
    const { key, id } = state.claim
    next.inFlight = true
    return [next, [{ type: 'send', request: { op: 'withdraw', key, id } }]]
  }
  return [next, [{ type: 'send', request: renewalSent(next, at) }]]
}

/** Marks a renewal as on its way, and returns its request. */
export function renewalSent(draft: ClaimStateDraft, at: number): Request {
  const { key, id } = draft.claim
  const ttlMs = askedTtlMs(draft, at)
  draft.inFlight = true
  trustAtMost(draft, ttlMs, at)
  return { op: 'renew', key, id, ttlMs }
}

/** Moves the end of a held claim to `deadline`: a request that was sent at `sentAt` has renewed it. */
export function extend(held: ClaimStateDraft, deadline: number, sentAt: number, at: number): void {
  // Compares the new deadline with that of before.
  held.dangerAt = dangerAt(held, deadline, held.ttlMs)
  held.deadline = deadline
  held.sentAt = sentAt
  held.failures = 0
  held.lastError = undefined
  held.nextAt = holderRenewalAt(held, sentAt, at)
}

/** The ttl to renew for. The store does not know the longest hold of a converted lease: never ask beyond its end. */
function askedTtlMs({ ttlMs, hold }: ClaimState, at: number): number {
  return hold === undefined ? ttlMs : Math.min(ttlMs, Math.max(hold.ttlMinMs, Math.ceil(hold.until - at)))
}

/** The deadline, or the end of the longest hold if that is earlier. */
export function withinHold({ hold }: ClaimState, deadline: number): number {
  return hold === undefined ? deadline : Math.min(deadline, Math.floor(hold.until))
}

/**
 * When to warn the owner of a lease for `ttlMs` that ends at `deadline`: a third of the lease before. Infinity if the
 * owner has been warned of this end, which renewals near the longest hold move by no more than the drift margin.
 */
export function dangerAt(state: ClaimState, deadline: number, ttlMs: number): number {
  const leaseMs = Math.min(ttlMs, boundOf(state), state.claim.maxHoldMs ?? Infinity)
  const wasWarned = state.phase === 'held' && state.dangerAt === Infinity
  if (wasWarned && Math.abs(deadline - state.deadline) <= leaseMs / 20 + 3) return Infinity
  return Math.floor(deadline - leaseMs / 3)
}

/** Shortens the deadline for a shorter ttl as soon as that is sent: it may come into force without an answer. */
export function trustAtMost(state: ClaimStateDraft, ttlMs: number, at: number): void {
  const deadline = trustedUntil(at, ttlMs)
  if (deadline >= state.deadline) return
  state.dangerAt = dangerAt(state, deadline, ttlMs)
  state.deadline = deadline
}

/** Sends the claim once more, as it was: its id makes that safe. */
export function claimAgain(state: ClaimState): Stepped {
  const asking = state.copy()
  asking.inFlight = true
  asking.nextAt = Infinity
  return [asking, [{ type: 'send', request: { op: 'claim', claim: state.claim } }]]
}

/** Changes how often a lease is renewed. */
export function renewEvery(state: ClaimState, everyMs: number, at: number): Stepped {
  const changed = state.copy()
  changed.heartbeatMs = everyMs
  if (state.phase === 'held' && state.leaving === undefined) changed.nextAt = holderRenewalAt(changed, state.sentAt, at)
  return [changed, noEffects]
}

const releaseRetry: Backoff = { attempts: Infinity, minMs: 50, maxMs: 2000, factor: 2, jitter: 0.2 }

/** Ends a lease against its owner's will. */
export function lose(state: ClaimState, reason: string, detail: string | undefined): Stepped {
  return [ended(state, 'lost'), [{ type: 'lost', reason, detail }]]
}

/** A conversion that is to take the claim's place is under way, or was given up. */
export function conversionUnderWay(
  state: ClaimState,
  { at, ttlMs }: Extract<ClaimEvent, { type: 'converting' }>,
): Stepped {
  const underWay = ttlMs !== undefined
  const next = state.copy()
  next.converting = underWay ? 'under way' : 'no'
  // If the conversion is granted for less, the lease is no longer than that.
  if (underWay && ttlMs < state.ttlMs) {
    next.doubtMs = Math.min(state.doubtMs ?? Infinity, ttlMs)
    trustAtMost(next, ttlMs, at)
  }
  // No conversion took its place, and the store does not know the claim: it was lost before.
  const wasGone = !underWay && state.phase === 'held' && state.converting === 'in doubt'
  return wasGone ? lose(next, 'unknown', undefined) : [next, noEffects]
}

/** Stops following a claim that lives on as a conversion, or in another process. */
export function passOn(state: ClaimState): Stepped {
  return [state.phase === 'held' ? ended(state, 'over') : state, noEffects]
}

/** Why a lease that is past its deadline was not renewed. */
export function whyOver(state: ClaimState): string {
  const { grantSentAt } = state
  const { maxHoldMs } = state.claim
  // A holder stops before the store can answer `max-hold`: a deadline near the end of the longest hold is taken for it.
  const nearMs = state.ttlMs / 20 + 3
  const isBound = maxHoldMs !== undefined && grantSentAt !== undefined
  const longest = isBound ? trustedUntil(grantSentAt, maxHoldMs) : Infinity
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
      // In its grace the store may still keep the claim: release it.
      return [state, [releaseRequest(state)]]
    case 'releasing':
    case 'over':
      return [state, noEffects]
  }
}

/** Withdraws a conversion. If that comes too late, it is granted after all. */
export function withdraw(state: ClaimState, at: number): Stepped {
  if (state.phase !== 'asking' && state.phase !== 'waiting') return [state, noEffects]
  const withdrawn = state.copy()
  withdrawn.withdrawn = true
  return renewNow(withdrawn, at)
}

/**
 * Releases a claim whose outcome is not known, or came too late. A conversion is withdrawn instead: if it was granted, it
 * must stay, as its owner may trust the lease whose place it took.
 */
export function clearAway(state: ClaimState, at: number, effect: ClaimEffect): Stepped {
  const [releasing, requests] = leave(state, at, state.claim.replaces === undefined ? 'release' : 'withdraw')
  return [releasing, [effect, ...requests]]
}

/** Sends the release, and goes on trying for as long as the store may keep the claim. */
function leave(state: ClaimState, at: number, how: 'release' | 'withdraw'): Stepped {
  const deadline = Math.ceil(at + state.ttlMs + state.claim.graceMs)
  const releasing = state.copy()
  releasing.phase = 'releasing'
  releasing.failures = 0
  releasing.deadline = deadline
  releasing.inFlight = true
  releasing.nextAt = Infinity
  releasing.withdrawn = how === 'withdraw'
  return [releasing, [releaseRequest(releasing)]]
}

/** Sends the release again: the last one failed. */
export function releaseAgain(state: ClaimState): Stepped {
  const releasing = state.copy()
  releasing.inFlight = true
  releasing.nextAt = Infinity
  return [releasing, [releaseRequest(state)]]
}

/** Ends a release that was never answered: by now the claim has expired in the store, and its owner waits no longer. */
export function releaseUnanswered(state: ClaimState, at: number): Stepped {
  const error = new LeaseholdError('UNAVAILABLE', 'The store has not answered.', { reason: 'no-answer' })
  const isFirst = state.failures === 0
  return [ended(state, 'over'), isFirst ? [{ type: 'released', status: { state: 'unknown', error }, at }] : noEffects]
}

function releaseRequest({ claim, withdrawn }: ClaimState): ClaimEffect {
  return { type: 'send', request: { op: withdrawn ? 'withdraw' : 'release', key: claim.key, id: claim.id } }
}

/** The release was answered, or failed. */
export function releaseAnswered(state: ClaimState, event: Extract<ClaimEvent, { type: 'release-answer' }>): Stepped {
  const { status, at, random } = event
  if (state.phase !== 'releasing')
    return [state, state.phase === 'lost' ? [{ type: 'released', status, at }] : noEffects]
  const isFirst = state.failures === 0
  const effects: ClaimEffect[] = isFirst || status.state !== 'unknown' ? [{ type: 'released', status, at }] : []
  if (status.state !== 'unknown') return [ended(state, 'over'), effects]
  const failures = state.failures + 1
  const nextAt = at + pauseMs(releaseRetry, failures, random)
  // By then the claim has expired in the store.
  if (nextAt >= state.deadline) return [ended(state, 'over'), effects]
  const next = state.copy()
  next.inFlight = false
  next.failures = failures
  next.nextAt = nextAt
  return [next, effects]
}

function ended(state: ClaimState, phase: 'lost' | 'over'): ClaimState {
  const next = state.copy()
  next.phase = phase
  next.inFlight = false
  next.nextAt = Infinity
  return next
}
