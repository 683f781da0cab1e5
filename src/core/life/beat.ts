import { trustedUntil } from '../time/deadline.ts'
import { copyOf, nothing, type Life, type LifeDraft, type Stepped } from './state.ts'

/** When to renew a lease that was given or renewed at `sentAt`; never, if its holder does that by hand. */
export function holderBeat(life: Life, sentAt: number, at: number): number {
  if (life.heartbeatMs === Infinity) return Infinity
  // What may be carried out yet ends the lease sooner than its ttl says: keep its pace.
  return nextBeat(paceOf(life.heartbeatMs, Math.min(life.ttlMs, boundOf(life))), life.spread, sentAt, at)
}

/** What no answer can be trusted beyond: something shorter may be carried out after it. */
export function boundOf({ doubtMs, elsewhereMs }: Pick<Life, 'doubtMs' | 'elsewhereMs'>): number {
  return Math.min(doubtMs ?? Infinity, elsewhereMs ?? Infinity)
}

/** Another thread has been told to renew for this ttl, as if we asked for it now; or has stopped: then we ask for all. */
export function askedElsewhere(life: Life, elsewhereMs: number | undefined, at: number): Stepped {
  const next = copyOf(life)
  next.elsewhereMs = elsewhereMs
  if (life.phase === 'held' && elsewhereMs !== undefined) trustAtMost(next, elsewhereMs, at)
  const wasBound = (life.elsewhereMs ?? Infinity) < Math.min(life.ttlMs, boundOf(next))
  return wasBound && life.phase === 'held' && life.leaving === undefined ? renewNow(next, at) : [next, nothing]
}

/** A heartbeat that leaves no room for a failure is quickened: `renew` may have made the ttl shorter since it was chosen. */
export function paceOf(heartbeatMs: number, ttlMs: number): number {
  return heartbeatMs > ttlMs / 2 ? ttlMs / 3 : heartbeatMs
}

/** A waiter keeps its place by itself, whatever its owner wants to do by hand once it holds. */
export function waiterBeat(life: Life, sentAt: number, at: number): number {
  return nextBeat(Math.min(life.heartbeatMs, life.ttlMs / 3), life.spread, sentAt, at)
}

/** Different for each claim: keeps the heartbeats of leases taken together from staying together. Takes a number below 1. */
export function spreadOf(roll: number): number {
  return Math.floor(roll * 101)
}

/** Renewals fall on a common beat, so that many share a batch, and a little early, each by its own amount. */
export function nextBeat(everyMs: number, spread: number, sentAt: number, at: number): number {
  const beatMs = Math.min(250, Math.max(1, everyMs / 40))
  const dueAt = sentAt + everyMs * (0.9 + 0.001 * spread)
  return Math.max(at, Math.floor(Math.floor(dueAt / beatMs) * beatMs))
}

export function withTtl(life: Life, ttlMs: number): Life {
  const changed = copyOf(life)
  changed.ttlMs = ttlMs
  return changed
}

export function renewNow(life: Life, at: number): Stepped {
  const next = copyOf(life)
  if (life.inFlight) {
    next.askAgain = true
    return [next, nothing]
  }
  next.inFlight = true
  const { key, id } = life.claim
  if (life.withdrawn && life.phase !== 'held') {
    return [next, [{ type: 'send', request: { op: 'withdraw', key, id } }]]
  }
  const ttlMs = askedTtlMs(life, at)
  trustAtMost(next, ttlMs, at)
  return [next, [{ type: 'send', request: { op: 'renew', key, id, ttlMs } }]]
}

/** The ttl to renew for. The store does not know how long a converted lease may still be held: no more is asked for. */
function askedTtlMs({ ttlMs, hold }: Life, at: number): number {
  return hold === undefined ? ttlMs : Math.min(ttlMs, Math.max(hold.ttlMinMs, Math.ceil(hold.until - at)))
}

/** A deadline that is not after the longest hold. */
export function withinHold({ hold }: Life, deadline: number): number {
  return hold === undefined ? deadline : Math.min(deadline, Math.floor(hold.until))
}

/**
 * When to warn the owner of a lease for `ttlMs` that ends at `deadline`: a third of the lease before. Infinity if the owner
 * has been warned of this end: renewals near the longest hold move it by no more than the drift margin.
 */
export function dangerAt(life: Life, deadline: number, ttlMs: number): number {
  const leaseMs = Math.min(ttlMs, boundOf(life), life.claim.maxHoldMs ?? Infinity)
  const wasWarned = life.phase === 'held' && life.dangerAt === Infinity
  if (wasWarned && Math.abs(deadline - life.deadline) <= leaseMs / 20 + 3) return Infinity
  return Math.floor(deadline - leaseMs / 3)
}

/** A shorter ttl counts from when it is asked for: it may come into force although nobody hears of it. */
export function trustAtMost(life: LifeDraft, ttlMs: number, at: number): void {
  const deadline = trustedUntil(at, ttlMs)
  if (deadline >= life.deadline) return
  life.dangerAt = dangerAt(life, deadline, ttlMs)
  life.deadline = deadline
}

/** Sends the claim once more, as it was: its id makes that safe. */
export function claimAgain(life: Life): Stepped {
  const asking = copyOf(life)
  asking.inFlight = true
  asking.nextAt = Infinity
  return [asking, [{ type: 'send', request: { op: 'claim', claim: life.claim } }]]
}

/** Changes how often a lease is renewed. */
export function beatEvery(life: Life, everyMs: number, at: number): Stepped {
  const changed = copyOf(life)
  changed.heartbeatMs = everyMs
  if (life.phase === 'held' && life.leaving === undefined) changed.nextAt = holderBeat(changed, life.sentAt, at)
  return [changed, nothing]
}
