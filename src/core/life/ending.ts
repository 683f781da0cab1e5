import { LeaseholdError } from '../errors.ts'
import { pauseMs, type Backoff } from '../time/backoff.ts'
import { trustedUntil } from '../time/deadline.ts'
import { renewNow, trustAtMost } from './beat.ts'
import { copyOf, nothing, type Effect, type Event, type Life, type Stepped } from './state.ts'

const releaseRetry: Backoff = { attempts: Infinity, minMs: 50, maxMs: 2000, factor: 2, jitter: 0.2 }

/** Ended against its owner's will. */
export function lose(life: Life, reason: string, detail: string | undefined): Stepped {
  return [ended(life, 'lost'), [{ type: 'lost', reason, detail }]]
}

/** A claim that is to take this one's place is under way, or has come to nothing. */
export function conversionUnderWay(life: Life, { at, ttlMs }: Extract<Event, { type: 'converting' }>): Stepped {
  const underWay = ttlMs !== undefined
  const next = copyOf(life)
  next.converting = underWay ? 'under way' : 'no'
  // As if the lease itself were to last no longer.
  if (underWay && ttlMs < life.ttlMs) {
    next.doubtMs = Math.min(life.doubtMs ?? Infinity, ttlMs)
    trustAtMost(next, ttlMs, at)
  }
  // Nobody took its place and the store no longer knows it: it was gone all along.
  const wasGone = !underWay && life.phase === 'held' && life.converting === 'in doubt'
  return wasGone ? lose(next, 'unknown', undefined) : [next, nothing]
}

/** Lives on as another claim, or in another process. */
export function passOn(life: Life): Stepped {
  return [life.phase === 'held' ? ended(life, 'over') : life, nothing]
}

/** Why a lease that is past its deadline was not renewed. */
export function whyOver(life: Life): string {
  const { maxHoldMs } = life.claim
  // The store's word on the longest hold comes too late for a holder that stops first: near its end is near enough.
  const nearMs = life.ttlMs / 20 + 3
  const longest = maxHoldMs === undefined ? Infinity : trustedUntil(life.grantSentAt, maxHoldMs)
  const heldLongest = life.deadline >= Math.min(longest, life.hold?.until ?? Infinity) - nearMs
  return life.leaving ?? (heldLongest ? 'max-hold' : 'expired')
}

/** The owner lets go, or no longer wants to wait. */
export function letGo(life: Life, at: number): Stepped {
  switch (life.phase) {
    case 'asking':
    case 'waiting':
    case 'held':
      return leave(life, at, 'release')
    case 'lost':
      // The store may still keep it, in its grace: say that we are gone.
      return [life, [releaseRequest(life)]]
    case 'releasing':
    case 'over':
      return [life, nothing]
  }
}

/** Takes a conversion back, if that is not too late: then it is granted after all. */
export function withdraw(life: Life, at: number): Stepped {
  if (life.phase !== 'asking' && life.phase !== 'waiting') return [life, nothing]
  const withdrawn = copyOf(life)
  withdrawn.withdrawn = true
  return renewNow(withdrawn, at)
}

/**
 * Leaves nothing behind of a claim whose outcome is not known, or came too late. A conversion that was granted must stay
 * until its time is over: its owner may trust the lease whose place it took.
 */
export function clearAway(life: Life, at: number, effect: Effect): Stepped {
  const [releasing, requests] = leave(life, at, life.claim.replaces === undefined ? 'release' : 'withdraw')
  return [releasing, [effect, ...requests]]
}

/** Tells the store, and goes on trying for as long as that may keep the claim. */
function leave(life: Life, at: number, how: 'release' | 'withdraw'): Stepped {
  const deadline = Math.ceil(at + life.ttlMs + life.claim.graceMs)
  const releasing = copyOf(life)
  releasing.phase = 'releasing'
  releasing.failures = 0
  releasing.deadline = deadline
  releasing.inFlight = true
  releasing.nextAt = Infinity
  releasing.withdrawn = how === 'withdraw'
  return [releasing, [releaseRequest(releasing)]]
}

/** The last release was not answered. */
export function releaseAgain(life: Life): Stepped {
  const releasing = copyOf(life)
  releasing.inFlight = true
  releasing.nextAt = Infinity
  return [releasing, [releaseRequest(life)]]
}

/** A driver that never answers: by now the store has forgotten the claim by itself, and its owner waits no longer. */
export function releaseUnanswered(life: Life, at: number): Stepped {
  const error = new LeaseholdError('UNAVAILABLE', 'The store has not answered.', { reason: 'no-answer' })
  const isFirst = life.failures === 0
  return [ended(life, 'over'), isFirst ? [{ type: 'released', status: { state: 'unknown', error }, at }] : nothing]
}

function releaseRequest({ claim, withdrawn }: Life): Effect {
  return { type: 'send', request: { op: withdrawn ? 'withdraw' : 'release', key: claim.key, id: claim.id } }
}

/** The store has, or has not, heard that the claim is released. */
export function releaseAnswered(life: Life, event: Extract<Event, { type: 'release-answer' }>): Stepped {
  const { status, at, roll } = event
  if (life.phase !== 'releasing') return [life, life.phase === 'lost' ? [{ type: 'released', status, at }] : nothing]
  const isFirst = life.failures === 0
  const effects: Effect[] = isFirst || status.state !== 'unknown' ? [{ type: 'released', status, at }] : []
  if (status.state !== 'unknown') return [ended(life, 'over'), effects]
  const failures = life.failures + 1
  const nextAt = at + pauseMs(releaseRetry, failures, roll)
  // Past its ttl the store has forgotten the claim by itself.
  if (nextAt >= life.deadline) return [ended(life, 'over'), effects]
  const next = copyOf(life)
  next.inFlight = false
  next.failures = failures
  next.nextAt = nextAt
  return [next, effects]
}

function ended(life: Life, phase: 'lost' | 'over'): Life {
  const next = copyOf(life)
  next.phase = phase
  next.inFlight = false
  next.nextAt = Infinity
  return next
}
