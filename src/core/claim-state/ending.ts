import { LeaseholdError } from '../errors.ts'
import { pauseMs, type Backoff } from '../time/backoff.ts'
import { trustedUntil } from '../time/deadline.ts'
import { renewNow, trustAtMost } from './renewal.ts'
import { copyOf, nothing, type Effect, type Event, type ClaimState, type Stepped } from './state.ts'

const releaseRetry: Backoff = { attempts: Infinity, minMs: 50, maxMs: 2000, factor: 2, jitter: 0.2 }

/** Ended against its owner's will. */
export function lose(state: ClaimState, reason: string, detail: string | undefined): Stepped {
  return [ended(state, 'lost'), [{ type: 'lost', reason, detail }]]
}

/** A claim that is to take this one's place is under way, or has come to nothing. */
export function conversionUnderWay(state: ClaimState, { at, ttlMs }: Extract<Event, { type: 'converting' }>): Stepped {
  const underWay = ttlMs !== undefined
  const next = copyOf(state)
  next.converting = underWay ? 'under way' : 'no'
  // As if the lease itself were to last no longer.
  if (underWay && ttlMs < state.ttlMs) {
    next.doubtMs = Math.min(state.doubtMs ?? Infinity, ttlMs)
    trustAtMost(next, ttlMs, at)
  }
  // Nobody took its place and the store no longer knows it: it was gone all along.
  const wasGone = !underWay && state.phase === 'held' && state.converting === 'in doubt'
  return wasGone ? lose(next, 'unknown', undefined) : [next, nothing]
}

/** Lives on as another claim, or in another process. */
export function passOn(state: ClaimState): Stepped {
  return [state.phase === 'held' ? ended(state, 'over') : state, nothing]
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
      return [state, nothing]
  }
}

/** Takes a conversion back, if that is not too late: then it is granted after all. */
export function withdraw(state: ClaimState, at: number): Stepped {
  if (state.phase !== 'asking' && state.phase !== 'waiting') return [state, nothing]
  const withdrawn = copyOf(state)
  withdrawn.withdrawn = true
  return renewNow(withdrawn, at)
}

/**
 * Leaves nothing behind of a claim whose outcome is not known, or came too late. A conversion that was granted must stay
 * until its time is over: its owner may trust the lease whose place it took.
 */
export function clearAway(state: ClaimState, at: number, effect: Effect): Stepped {
  const [releasing, requests] = leave(state, at, state.claim.replaces === undefined ? 'release' : 'withdraw')
  return [releasing, [effect, ...requests]]
}

/** Tells the store, and goes on trying for as long as that may keep the claim. */
function leave(state: ClaimState, at: number, how: 'release' | 'withdraw'): Stepped {
  const deadline = Math.ceil(at + state.ttlMs + state.claim.graceMs)
  const releasing = copyOf(state)
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
  const releasing = copyOf(state)
  releasing.inFlight = true
  releasing.nextAt = Infinity
  return [releasing, [releaseRequest(state)]]
}

/** A driver that never answers: by now the store has forgotten the claim by itself, and its owner waits no longer. */
export function releaseUnanswered(state: ClaimState, at: number): Stepped {
  const error = new LeaseholdError('UNAVAILABLE', 'The store has not answered.', { reason: 'no-answer' })
  const isFirst = state.failures === 0
  return [ended(state, 'over'), isFirst ? [{ type: 'released', status: { state: 'unknown', error }, at }] : nothing]
}

function releaseRequest({ claim, withdrawn }: ClaimState): Effect {
  return { type: 'send', request: { op: withdrawn ? 'withdraw' : 'release', key: claim.key, id: claim.id } }
}

/** The store has, or has not, heard that the claim is released. */
export function releaseAnswered(state: ClaimState, event: Extract<Event, { type: 'release-answer' }>): Stepped {
  const { status, at, random } = event
  if (state.phase !== 'releasing') return [state, state.phase === 'lost' ? [{ type: 'released', status, at }] : nothing]
  const isFirst = state.failures === 0
  const effects: Effect[] = isFirst || status.state !== 'unknown' ? [{ type: 'released', status, at }] : []
  if (status.state !== 'unknown') return [ended(state, 'over'), effects]
  const failures = state.failures + 1
  const nextAt = at + pauseMs(releaseRetry, failures, random)
  // Past its ttl the store has forgotten the claim by itself.
  if (nextAt >= state.deadline) return [ended(state, 'over'), effects]
  const next = copyOf(state)
  next.inFlight = false
  next.failures = failures
  next.nextAt = nextAt
  return [next, effects]
}

function ended(state: ClaimState, phase: 'lost' | 'over'): ClaimState {
  const next = copyOf(state)
  next.phase = phase
  next.inFlight = false
  next.nextAt = Infinity
  return next
}
