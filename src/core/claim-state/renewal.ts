import { trustedUntil } from '../time/deadline.ts'
import { copyOf, nothing, type ClaimState, type ClaimStateDraft, type Stepped } from './state.ts'

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
  const next = copyOf(state)
  next.elsewhereMs = elsewhereMs
  if (state.phase === 'held' && elsewhereMs !== undefined) trustAtMost(next, elsewhereMs, at)
  const wasBound = (state.elsewhereMs ?? Infinity) < Math.min(state.ttlMs, boundOf(next))
  return wasBound && state.phase === 'held' && state.leaving === undefined ? renewNow(next, at) : [next, nothing]
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
  const changed = copyOf(state)
  changed.ttlMs = ttlMs
  return changed
}

export function renewNow(state: ClaimState, at: number): Stepped {
  const next = copyOf(state)
  if (state.inFlight) {
    next.askAgain = true
    return [next, nothing]
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
  const asking = copyOf(state)
  asking.inFlight = true
  asking.nextAt = Infinity
  return [asking, [{ type: 'send', request: { op: 'claim', claim: state.claim } }]]
}

/** Changes how often a lease is renewed. */
export function renewEvery(state: ClaimState, everyMs: number, at: number): Stepped {
  const changed = copyOf(state)
  changed.heartbeatMs = everyMs
  if (state.phase === 'held' && state.leaving === undefined) changed.nextAt = holderRenewalAt(changed, state.sentAt, at)
  return [changed, nothing]
}
