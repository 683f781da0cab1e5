/**
 * One claim in the client, as a pure state machine: `step(state, event) → [state, effects]`.
 *
 * There is no clock, timer or promise here. Every event carries the time at which it happened on the client's clock; a
 * thin runtime (`claim-runtime.ts`) turns effects into sends and callbacks and wakes the claim at `wakeAt(state)`. A
 * simulator can drive it millions of times. Renewals and endings are in `claim-renewal.ts`.
 */
import { trustedUntil } from '../time/deadline.ts'
import type { Claim, AbsentStatus, HeldStatus, WaitingStatus } from '../contract/driver.ts'
import {
  askedElsewhere,
  renewEvery,
  renewNow,
  withTtl,
  conversionUnderWay,
  letGo,
  passOn,
  releaseAnswered,
  withdraw,
  claimAgain,
  clearAway,
  lose,
  releaseAgain,
  releaseUnanswered,
  whyOver,
  dangerAt,
  extend,
  holderRenewalAt,
  lastsMs,
  trustAtMost,
  waiterRenewalAt,
  withinHold,
} from './claim-renewal.ts'
import {
  ClaimStateDraft,
  noEffects,
  ownRenewal,
  type ClaimEvent,
  type ClaimState,
  type RenewalPolicy,
  type Stepped,
  type ClaimEffect,
} from './claim-state.ts'
import { LeaseholdError, plainMessageOf } from '../errors.ts'
import { pauseMs } from '../time/backoff.ts'

export { boundOf, heartbeatWithin } from './claim-renewal.ts'
export type { ClaimEffect, ClaimEvent, ClaimState, RenewalPolicy, Stepped } from './claim-state.ts'

/** A new claim, about to be sent. */
export function begin(claim: Claim, policy: RenewalPolicy, at: number): Stepped {
  const sentAt = Math.floor(at)
  // An answer after this deadline is of no use: the lease it grants would be over.
  const deadline = trustedUntil(sentAt, claim.ttlMs)
  const state = new ClaimStateDraft(claim, policy, sentAt, deadline)
  return [state, [{ type: 'send', request: { op: 'claim', claim } }]]
}

/** When the claim wants its next tick. */
export function wakeAt(state: ClaimState): number {
  switch (state.phase) {
    case 'held':
      return Math.min(state.inFlight ? Infinity : state.nextAt, state.dangerAt, state.deadline)
    case 'asking':
    case 'waiting':
      return Math.min(state.inFlight ? Infinity : state.nextAt, state.deadline)
    case 'releasing':
      return state.inFlight ? state.deadline : state.nextAt
    case 'lost':
    case 'over':
      return Infinity
  }
}

/** Moves a claim on by one event. */
export function step(state: ClaimState, event: ClaimEvent): Stepped {
  switch (event.type) {
    case 'answer':
      return answered(state, event)
    case 'elsewhere':
      return askedElsewhere(state, event.ttlMs, event.at)
    case 'release-answer':
      return releaseAnswered(state, event)
    case 'notified':
      return notified(state, event)
    case 'tick':
      return ticked(state, event.at)
    case 'release':
      return letGo(state, event.at)
    case 'withdraw':
      return withdraw(state, event.at)
    case 'renew':
      return state.phase === 'held' ? renewNow(withTtl(state, event.ttlMs), event.at) : [state, noEffects]
    case 'heartbeat':
      return renewEvery(state, event.everyMs, event.at)
    case 'converting':
      return conversionUnderWay(state, event)
    case 'pass-on':
      return passOn(state)
  }
}

/** Time has passed. */
export function ticked(state: ClaimState, at: number): Stepped {
  switch (state.phase) {
    case 'asking': {
      if (at < state.deadline)
        return at >= state.nextAt && !state.inFlight ? askOnceMore(state, at) : [state, noEffects]
      const error = new LeaseholdError(
        'UNAVAILABLE',
        `The store has not answered for ${Math.round(at - state.sentAt)} ms.`,
        {
          reason: 'no-answer',
        },
      )
      return clearAway(state, at, { type: 'failed', error })
    }
    case 'waiting':
      // The claim may have expired in the queue: release it and let the caller queue anew.
      if (at >= state.deadline) {
        return clearAway(state, at, { type: 'refused', status: { state: 'absent', reason: 'expired' } })
      }
      return at >= state.nextAt && !state.inFlight ? renewNow(state, at) : [state, noEffects]
    case 'held':
      return tickedWhileHeld(state, at)
    case 'releasing':
      if (state.inFlight) return at >= state.deadline ? releaseUnanswered(state, at) : [state, noEffects]
      return at >= state.nextAt ? releaseAgain(state) : [state, noEffects]
    case 'lost':
    case 'over':
      return [state, noEffects]
  }
}

/** The outcome of the claim is not known: send it again, or withdraw it. */
function askOnceMore(state: ClaimState, at: number): Stepped {
  return state.withdrawn ? renewNow(state, at) : claimAgain(state)
}

function tickedWhileHeld(state: ClaimState, at: number): Stepped {
  if (at >= state.deadline) {
    const detail = state.lastError === undefined ? undefined : plainMessageOf(state.lastError)
    return lose(state, whyOver(state), detail)
  }
  if (at < state.dangerAt) return at < state.nextAt || state.inFlight ? [state, noEffects] : renewNow(state, at)
  const reason = whyEnding(state)
  const jeopardy: ClaimEffect = { type: 'jeopardy', reason, leftMs: Math.floor(state.deadline - at) }
  const warned = state.copy()
  warned.dangerAt = Infinity
  if (at < state.nextAt || state.inFlight) return [warned, [jeopardy]]
  const [renewing, effects] = renewNow(warned, at)
  return [renewing, [jeopardy, ...effects]]
}

/** Why a lease nears its end. At its longest hold a lease is renewed without being extended. */
function whyEnding(state: ClaimState): string {
  if (state.lastError !== undefined && state.leaving === undefined) return plainMessageOf(state.lastError)
  const why = whyOver(state)
  return why === 'expired' ? 'not renewed' : why
}

/** The effects of most renewals, shared. */
const renewal: readonly ClaimEffect[] = [ownRenewal]
const renewalElsewhere: readonly ClaimEffect[] = [{ type: 'renewed', own: false }]
const lateAnswer: readonly ClaimEffect[] = [{ type: 'answered-late' }]

/** A claim or a renewal was answered. */
export function answered(state: ClaimState, event: Extract<ClaimEvent, { type: 'answer' }>): Stepped {
  const { sentAt } = event
  if (state.phase !== 'asking' && state.phase !== 'waiting' && state.phase !== 'held') return [state, noEffects]
  // A later request has been answered already.
  const isOutdated = sentAt < state.sentAt
  const stepped = isOutdated ? outdated(state, event) : landed(state, event)
  const next = stepped[0]
  if (!next.askAgain || next.inFlight || (next.phase !== 'held' && next.phase !== 'waiting')) return stepped
  const asking = next.copy()
  asking.askAgain = false
  const [asked, more] = renewNow(asking, event.at)
  return [asked, [...stepped[1], ...more]]
}

/** Applies the answer to the latest request. */
function landed(state: ClaimState, event: Extract<ClaimEvent, { type: 'answer' }>): Stepped {
  const { status, sentAt, at } = event
  switch (status.state) {
    case 'held':
      if (state.phase === 'held') return renewed(state, status, event)
      return granted(state, status, sentAt, at, {
        deadline: trustedUntil(sentAt, lastsMs(state, status.ttlMs, event.askedMs)),
        inFlight: false,
      })
    case 'waiting':
      // A grant that was pushed meanwhile is newer than this answer.
      return state.phase === 'held' ? [answeredTo(state, event), lateAnswer] : queued(state, status, event)
    case 'absent':
      return ended(state, status)
    case 'unknown':
      return failed(state, status.error, event)
  }
}

function granted(
  state: ClaimState,
  status: HeldStatus,
  sentAt: number,
  at: number,
  lease: { readonly deadline: number; readonly inFlight: boolean },
): Stepped {
  const deadline = withinHold(state, lease.deadline)
  if (at >= deadline) {
    // The answer took as long as the lease: the grant must not reach the owner.
    const error = new LeaseholdError('UNAVAILABLE', `The store took ${Math.round(at - sentAt)} ms to answer.`, {
      reason: 'no-answer',
    })
    return clearAway(state, at, { type: 'failed', error })
  }
  const { leaving } = status
  const held = state.copy()
  held.phase = 'held'
  if (state.claim.maxHoldMs !== undefined) held.grantSentAt = sentAt
  held.sentAt = sentAt
  held.deadline = deadline
  held.dangerAt = dangerAt(state, deadline, state.ttlMs)
  held.nextAt = leaving === undefined ? holderRenewalAt(state, sentAt, at) : Infinity
  held.inFlight = lease.inFlight
  held.failures = 0
  held.leaving = leaving
  const effects: ClaimEffect[] = [{ type: 'granted', fence: status.fence, after: status.after, at }]
  if (leaving !== undefined) effects.push({ type: 'leaving', reason: leaving, leftMs: Math.floor(held.deadline - at) })
  return [held, effects]
}

function renewed(state: ClaimState, status: HeldStatus, event: Extract<ClaimEvent, { type: 'answer' }>): Stepped {
  const { sentAt, at, askedMs } = event
  const leftMs = lastsMs(state, status.ttlMs, askedMs)
  const leaving = status.leaving ?? state.leaving
  const next = answeredTo(state, event)
  // A renewal of this thread, for a ttl no longer in force, is or was under way when this one was sent: it may be for less,
  // and be carried out later.
  const overtaken = (next.inFlight && state.askAgain) || (event.elsewhere === true && sentAt <= state.answeredAt)
  const deadline = withinHold(state, Math.min(trustedUntil(sentAt, leftMs), overtaken ? state.deadline : Infinity))
  next.leaving = leaving
  extend(next, deadline, sentAt, at)
  if (leaving !== undefined) {
    // A holder that was asked to leave keeps its deadline, and gets no later one.
    next.deadline = Math.min(deadline, state.deadline)
    next.dangerAt = state.dangerAt
    next.nextAt = Infinity
  }
  if (at >= next.deadline) return lose(next, whyOver(next), undefined)
  if (leaving === undefined) return [next, event.elsewhere === true ? renewalElsewhere : renewal]
  if (state.leaving !== undefined) return [next, noEffects]
  return [next, [{ type: 'leaving', reason: leaving, leftMs: Math.floor(next.deadline - at) }]]
}

function queued(state: ClaimState, status: WaitingStatus, event: Extract<ClaimEvent, { type: 'answer' }>): Stepped {
  const { at, sentAt, random } = event
  const polls = state.polling === undefined ? 0 : state.failures + 1
  const pollMs = state.polling === undefined ? Infinity : pauseMs(state.polling, polls, random)
  const waiting = state.copy()
  waiting.phase = 'waiting'
  waiting.sentAt = sentAt
  waiting.deadline = trustedUntil(sentAt, lastsMs(state, status.ttlMs, event.askedMs))
  waiting.nextAt = Math.min(waiterRenewalAt(state, sentAt, at), at + Math.min(status.againMs, pollMs))
  waiting.inFlight = false
  waiting.failures = polls
  return [waiting, [{ type: 'queued', ahead: status.ahead }]]
}

function ended(state: ClaimState, status: AbsentStatus): Stepped {
  if (state.phase === 'held') return gone(state, status)
  const over = state.copy()
  over.phase = 'over'
  return [over, [{ type: 'refused', status }]]
}

function gone(state: ClaimState, status: AbsentStatus): Stepped {
  if (state.converting === 'no' || status.reason !== 'unknown') return lose(state, status.reason, status.detail)
  // The conversion may have taken its place: its own answer will say so. The deadline stands until then.
  const doubtful = noLongerInFlight(state)
  doubtful.askAgain = false
  doubtful.nextAt = Infinity
  doubtful.converting = 'in doubt'
  return [doubtful, noEffects]
}

function failed(state: ClaimState, error: unknown, event: Extract<ClaimEvent, { type: 'answer' }>): Stepped {
  // A conversion with an unknown outcome is not released: if granted, it is the owner's only lease. Send it again.
  const mayAskAgain = state.phase !== 'asking' || state.claim.replaces !== undefined
  if (!mayAskAgain) return clearAway(state, event.at, { type: 'failed', error })
  const failures = state.failures + 1
  // Try again well before the deadline, which stands whatever happens.
  const backoff = { attempts: Infinity, minMs: 20, maxMs: Math.max(20, state.ttlMs / 10), factor: 2, jitter: 0.3 }
  const next = answeredTo(state, event)
  next.doubtMs = Math.min(state.doubtMs ?? Infinity, event.askedMs)
  next.failures = failures
  next.lastError = error
  next.nextAt = event.at + pauseMs(backoff, failures, event.random)
  return [next, [{ type: 'renewal-failed', error, own: event.elsewhere !== true }]]
}

/** Applies a notification, unless it is older than what is known. */
export function notified(state: ClaimState, event: Extract<ClaimEvent, { type: 'notified' }>): Stepped {
  const { notification, at } = event
  if (state.phase !== 'asking' && state.phase !== 'waiting' && state.phase !== 'held') return [state, noEffects]
  if (notification === 'poll') return state.phase === 'asking' ? [state, noEffects] : renewNow(state, at)
  if (notification.state === 'absent') return ended(state, notification)
  if (notification.state !== 'held') return [state, noEffects]
  if (state.phase === 'held') return notifiedLeaving(state, notification, at)
  // However late the notification: the grant came after our last request and did not restart the lease, which ends when
  // that request said. The ttl in the notification can only shorten that: it may have been under way for any time.
  const { maxHoldMs } = state.claim
  const longest = maxHoldMs === undefined ? Infinity : trustedUntil(state.sentAt, maxHoldMs)
  const deadline = Math.min(state.deadline, trustedUntil(at, notification.ttlMs), longest)
  if (deadline - at > state.ttlMs / 3)
    return granted(state, notification, state.sentAt, at, { deadline, inFlight: state.inFlight })
  // Little of the lease may be left: renew first, and tell the owner of the grant once that is answered.
  if (state.phase !== 'asking') return renewNow(state, at)
  const asking = state.copy()
  asking.askAgain = true
  return [asking, noEffects]
}

/** A later request was answered before: the answer changes nothing, but its effects are still awaited. */
function outdated(state: ClaimState, event: Extract<ClaimEvent, { type: 'answer' }>): Stepped {
  const { status, askedMs, elsewhere } = event
  const next = answeredTo(state, event)
  if (status.state === 'unknown') next.doubtMs = Math.min(state.doubtMs ?? Infinity, askedMs)
  if (elsewhere === true || state.phase !== 'held' || state.leaving !== undefined) return [next, noEffects]
  switch (status.state) {
    case 'held':
      return [next, renewal]
    case 'waiting':
      return [next, lateAnswer]
    case 'absent':
      // The store contradicts its later answer: ask again, and believe that.
      next.askAgain = true
      return [next, noEffects]
    case 'unknown':
      return [next, [{ type: 'renewal-failed', error: status.error, own: true }]]
  }
}

/** Marks the request of this thread as answered; an answer to another thread's request leaves it on its way. */
function answeredTo(state: ClaimState, { elsewhere, at }: Extract<ClaimEvent, { type: 'answer' }>): ClaimStateDraft {
  if (elsewhere === true) return state.copy()
  const next = noLongerInFlight(state)
  next.answeredAt = Math.ceil(at)
  return next
}

function noLongerInFlight(state: ClaimState): ClaimStateDraft {
  const next = state.copy()
  next.inFlight = false
  return next
}

function notifiedLeaving(state: ClaimState, notification: HeldStatus, at: number): Stepped {
  if (notification.leaving === undefined || state.leaving !== undefined) return [state, noEffects]
  const leaving = state.copy()
  leaving.leaving = notification.leaving
  leaving.nextAt = Infinity
  trustAtMost(leaving, notification.ttlMs, at)
  return [
    leaving,
    [{ type: 'leaving', reason: notification.leaving, leftMs: Math.max(0, Math.floor(leaving.deadline - at)) }],
  ]
}
