import { pauseMs } from '../time/backoff.ts'
import { trustedUntil } from '../time/deadline.ts'
import type { ClaimStatus } from '../driver.ts'
import { LeaseholdError } from '../errors.ts'
import { boundOf, dangerAt, holderRenewalAt, renewNow, trustAtMost, waiterRenewalAt, withinHold } from './renewal.ts'
import { clearAway, lose, whyOver } from './ending.ts'
import {
  copyOf,
  nothing,
  type Effect,
  type Event,
  type ClaimState,
  type ClaimStateDraft,
  type Stepped,
} from './state.ts'

/** What there is to do after most renewals. */
const renewal: readonly Effect[] = [{ type: 'renewed', own: true }]
const renewalElsewhere: readonly Effect[] = [{ type: 'renewed', own: false }]
const lateAnswer: readonly Effect[] = [{ type: 'answered-late' }]

/** A claim or a renewal was answered. */
export function answered(state: ClaimState, event: Extract<Event, { type: 'answer' }>): Stepped {
  const { sentAt } = event
  if (state.phase !== 'asking' && state.phase !== 'waiting' && state.phase !== 'held') return [state, nothing]
  // Older news: a later request has been answered already.
  const isOutdated = sentAt < state.sentAt
  const stepped = isOutdated ? outdated(state, event) : landed(state, event)
  const next = stepped[0]
  if (!next.askAgain || next.inFlight || (next.phase !== 'held' && next.phase !== 'waiting')) return stepped
  const asking = copyOf(next)
  asking.askAgain = false
  const [asked, more] = renewNow(asking, event.at)
  return [asked, [...stepped[1], ...more]]
}

/** What an answer to a claim or a renewal means: it is no longer on its way. */
function landed(state: ClaimState, event: Extract<Event, { type: 'answer' }>): Stepped {
  const { status, sentAt, at } = event
  switch (status.state) {
    case 'held':
      if (state.phase === 'held') return renewed(state, status, event)
      return granted(state, status, sentAt, at, {
        deadline: trustedUntil(sentAt, lastsMs(state, status.ttlMs, event)),
        inFlight: false,
      })
    case 'waiting':
      // A grant that was pushed meanwhile is newer than this.
      return state.phase === 'held' ? [answeredTo(state, event), lateAnswer] : queued(state, status, event)
    case 'absent':
      return ended(state, status)
    case 'unknown':
      return failed(state, status.error, event)
  }
}

/**
 * How long an answer can be trusted for: as long as it says, but no longer than was asked for, nor than an earlier renewal
 * that may still arrive and shorten the lease.
 */
function lastsMs(state: ClaimState, ttlMs: number, { askedMs }: Extract<Event, { type: 'answer' }>): number {
  return Math.min(ttlMs, askedMs, boundOf(state))
}

function granted(
  state: ClaimState,
  status: Extract<ClaimStatus, { state: 'held' }>,
  sentAt: number,
  at: number,
  lease: { readonly deadline: number; readonly inFlight: boolean },
): Stepped {
  const deadline = withinHold(state, lease.deadline)
  if (at >= deadline) {
    // The answer took as long as the lease: nobody must see this grant.
    const error = new LeaseholdError('UNAVAILABLE', `The store took ${Math.round(at - sentAt)} ms to answer.`, {
      reason: 'no-answer',
    })
    return clearAway(state, at, { type: 'failed', error })
  }
  const { leaving } = status
  const held = copyOf(state)
  held.phase = 'held'
  held.grantSentAt = sentAt
  held.sentAt = sentAt
  held.deadline = deadline
  held.dangerAt = dangerAt(state, deadline, state.ttlMs)
  held.nextAt = leaving === undefined ? holderRenewalAt(state, sentAt, at) : Infinity
  held.inFlight = lease.inFlight
  held.failures = 0
  held.leaving = leaving
  const effects: Effect[] = [{ type: 'granted', fence: status.fence, after: status.after, at }]
  if (leaving !== undefined) effects.push({ type: 'leaving', reason: leaving, leftMs: Math.floor(held.deadline - at) })
  return [held, effects]
}

function renewed(
  state: ClaimState,
  status: Extract<ClaimStatus, { state: 'held' }>,
  event: Extract<Event, { type: 'answer' }>,
): Stepped {
  const { sentAt, at } = event
  const leftMs = lastsMs(state, status.ttlMs, event)
  const leaving = status.leaving ?? state.leaving
  const next = answeredTo(state, event)
  // One of our own is under way still, for a ttl that is no longer in force, or was when the other thread asked: it may have been
  // for less, and be carried out after this one.
  const overtaken = (next.inFlight && state.askAgain) || (event.elsewhere === true && sentAt <= state.answeredAt)
  const deadline = withinHold(state, Math.min(trustedUntil(sentAt, leftMs), overtaken ? state.deadline : Infinity))
  next.sentAt = sentAt
  next.failures = 0
  next.lastError = undefined
  next.leaving = leaving
  if (leaving === undefined) {
    next.deadline = deadline
    next.dangerAt = dangerAt(state, deadline, state.ttlMs)
    next.nextAt = holderRenewalAt(state, sentAt, at)
  } else {
    // A holder that was asked to leave is promised no more than it has.
    next.deadline = Math.min(deadline, state.deadline)
    next.nextAt = Infinity
  }
  if (at >= next.deadline) return lose(next, whyOver(next), undefined)
  if (leaving === undefined) return [next, event.elsewhere === true ? renewalElsewhere : renewal]
  if (state.leaving !== undefined) return [next, nothing]
  return [next, [{ type: 'leaving', reason: leaving, leftMs: Math.floor(next.deadline - at) }]]
}

function queued(
  state: ClaimState,
  status: Extract<ClaimStatus, { state: 'waiting' }>,
  event: Extract<Event, { type: 'answer' }>,
): Stepped {
  const { at, sentAt, random } = event
  const polls = state.polling === undefined ? 0 : state.failures + 1
  const pollMs = state.polling === undefined ? Infinity : pauseMs(state.polling, polls, random)
  const waiting = copyOf(state)
  waiting.phase = 'waiting'
  waiting.sentAt = sentAt
  waiting.deadline = trustedUntil(sentAt, lastsMs(state, status.ttlMs, event))
  waiting.nextAt = Math.min(waiterRenewalAt(state, sentAt, at), at + Math.min(status.againMs, pollMs))
  waiting.inFlight = false
  waiting.failures = polls
  return [waiting, [{ type: 'queued', ahead: status.ahead }]]
}

function ended(state: ClaimState, status: Extract<ClaimStatus, { state: 'absent' }>): Stepped {
  if (state.phase === 'held') return gone(state, status)
  const over = copyOf(state)
  over.phase = 'over'
  return [over, [{ type: 'refused', status }]]
}

function gone(state: ClaimState, status: Extract<ClaimStatus, { state: 'absent' }>): Stepped {
  if (state.converting === 'no' || status.reason !== 'unknown') return lose(state, status.reason, status.detail)
  // The claim that was to take its place may have done so: that one will tell. The deadline stands until then.
  const doubtful = noLongerInFlight(state)
  doubtful.askAgain = false
  doubtful.nextAt = Infinity
  doubtful.converting = 'in doubt'
  return [doubtful, nothing]
}

function failed(state: ClaimState, error: unknown, event: Extract<Event, { type: 'answer' }>): Stepped {
  // A conversion is not released for being unknown: granted, it is all its owner has. The same claim is sent again.
  const mayAskAgain = state.phase !== 'asking' || state.claim.replaces !== undefined
  if (!mayAskAgain) return clearAway(state, event.at, { type: 'failed', error })
  const failures = state.failures + 1
  // Try again well inside what is left; the deadline stands whatever happens.
  const backoff = { attempts: Infinity, minMs: 20, maxMs: Math.max(20, state.ttlMs / 10), factor: 2, jitter: 0.3 }
  const next = answeredTo(state, event)
  next.doubtMs = Math.min(state.doubtMs ?? Infinity, event.askedMs)
  next.failures = failures
  next.lastError = error
  next.nextAt = event.at + pauseMs(backoff, failures, event.random)
  return [next, [{ type: 'renewal-failed', error, own: event.elsewhere !== true }]]
}

/** Something was heard without asking. Only ever newer than what is known, or dropped. */
export function onNotification(state: ClaimState, event: Extract<Event, { type: 'notified' }>): Stepped {
  const { notification, at } = event
  if (state.phase !== 'asking' && state.phase !== 'waiting' && state.phase !== 'held') return [state, nothing]
  if (notification === 'poll') return state.phase === 'asking' ? [state, nothing] : renewNow(state, at)
  if (notification.state === 'absent') return ended(state, notification)
  if (notification.state !== 'held') return [state, nothing]
  if (state.phase === 'held') return notifiedLeaving(state, notification, at)
  // However late the news: the grant came after our last request, and its lease ends when that request said. What the
  // news say is left can only make that less: they may have been on their way for any time.
  const { maxHoldMs } = state.claim
  const longest = maxHoldMs === undefined ? Infinity : trustedUntil(state.sentAt, maxHoldMs)
  const deadline = Math.min(state.deadline, trustedUntil(at, notification.ttlMs), longest)
  if (deadline - at > state.ttlMs / 3)
    return granted(state, notification, state.sentAt, at, { deadline, inFlight: state.inFlight })
  // Little of it may be left: renew first, and tell the owner when that is answered.
  if (state.phase !== 'asking') return renewNow(state, at)
  const asking = copyOf(state)
  asking.askAgain = true
  return [asking, nothing]
}

/** A later request was answered before: the answer changes nothing, but whoever awaits it must be told. */
function outdated(state: ClaimState, event: Extract<Event, { type: 'answer' }>): Stepped {
  const { status, askedMs, elsewhere } = event
  const next = answeredTo(state, event)
  if (status.state === 'unknown') next.doubtMs = Math.min(state.doubtMs ?? Infinity, askedMs)
  if (elsewhere === true || state.phase !== 'held' || state.leaving !== undefined) return [next, nothing]
  switch (status.state) {
    case 'held':
      return [next, renewal]
    case 'waiting':
      return [next, lateAnswer]
    case 'absent':
      // The store contradicts itself: its next answer counts.
      next.askAgain = true
      return [next, nothing]
    case 'unknown':
      return [next, [{ type: 'renewal-failed', error: status.error, own: true }]]
  }
}

/** What was asked here is no longer on its way; what another thread asks is none of our requests. */
function answeredTo(state: ClaimState, { elsewhere, at }: Extract<Event, { type: 'answer' }>): ClaimStateDraft {
  if (elsewhere === true) return copyOf(state)
  const next = noLongerInFlight(state)
  next.answeredAt = Math.ceil(at)
  return next
}

function noLongerInFlight(state: ClaimState): ClaimStateDraft {
  const next = copyOf(state)
  next.inFlight = false
  return next
}

function notifiedLeaving(
  state: ClaimState,
  notification: Extract<ClaimStatus, { state: 'held' }>,
  at: number,
): Stepped {
  if (notification.leaving === undefined || state.leaving !== undefined) return [state, nothing]
  const leaving = copyOf(state)
  leaving.leaving = notification.leaving
  leaving.nextAt = Infinity
  trustAtMost(leaving, notification.ttlMs, at)
  return [
    leaving,
    [{ type: 'leaving', reason: notification.leaving, leftMs: Math.max(0, Math.floor(leaving.deadline - at)) }],
  ]
}
