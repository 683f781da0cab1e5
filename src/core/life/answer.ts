import { pauseMs } from '../time/backoff.ts'
import { trustedUntil } from '../time/deadline.ts'
import type { ClaimStatus } from '../driver.ts'
import { LeaseholdError } from '../errors.ts'
import { boundOf, dangerAt, holderBeat, renewNow, trustAtMost, waiterBeat, withinHold } from './beat.ts'
import { clearAway, lose, whyOver } from './ending.ts'
import { copyOf, nothing, type Effect, type Event, type Life, type LifeDraft, type Stepped } from './state.ts'

/** What there is to do after most renewals. */
const renewal: readonly Effect[] = [{ type: 'renewed', own: true }]
const renewalElsewhere: readonly Effect[] = [{ type: 'renewed', own: false }]
const lateAnswer: readonly Effect[] = [{ type: 'answered-late' }]

/** A claim or a renewal was answered. */
export function answered(life: Life, event: Extract<Event, { type: 'answer' }>): Stepped {
  const { sentAt } = event
  if (life.phase !== 'asking' && life.phase !== 'waiting' && life.phase !== 'held') return [life, nothing]
  // Older news: a later request has been answered already.
  const isOutdated = sentAt < life.sentAt
  const stepped = isOutdated ? outdated(life, event) : landed(life, event)
  const next = stepped[0]
  if (!next.askAgain || next.inFlight || (next.phase !== 'held' && next.phase !== 'waiting')) return stepped
  const asking = copyOf(next)
  asking.askAgain = false
  const [asked, more] = renewNow(asking, event.at)
  return [asked, [...stepped[1], ...more]]
}

/** What an answer to a claim or a renewal means: it is no longer on its way. */
function landed(life: Life, event: Extract<Event, { type: 'answer' }>): Stepped {
  const { status, sentAt, at } = event
  switch (status.state) {
    case 'held':
      if (life.phase === 'held') return renewed(life, status, event)
      return granted(life, status, sentAt, at, {
        deadline: trustedUntil(sentAt, lastsMs(life, status.ttlMs, event)),
        inFlight: false,
      })
    case 'waiting':
      // A grant that was pushed meanwhile is newer than this.
      return life.phase === 'held' ? [answeredTo(life, event), lateAnswer] : queued(life, status, event)
    case 'absent':
      return ended(life, status)
    case 'unknown':
      return failed(life, status.error, event)
  }
}

/**
 * How long an answer can be trusted for: as long as it says, but no longer than was asked for, nor than an earlier renewal
 * that may still arrive and shorten the lease.
 */
function lastsMs(life: Life, ttlMs: number, { askedMs }: Extract<Event, { type: 'answer' }>): number {
  return Math.min(ttlMs, askedMs, boundOf(life))
}

function granted(
  life: Life,
  status: Extract<ClaimStatus, { state: 'held' }>,
  sentAt: number,
  at: number,
  lease: { readonly deadline: number; readonly inFlight: boolean },
): Stepped {
  const deadline = withinHold(life, lease.deadline)
  if (at >= deadline) {
    // The answer took as long as the lease: nobody must see this grant.
    const error = new LeaseholdError('UNAVAILABLE', `The store took ${Math.round(at - sentAt)} ms to answer.`, {
      reason: 'no-answer',
    })
    return clearAway(life, at, { type: 'failed', error })
  }
  const { leaving } = status
  const held = copyOf(life)
  held.phase = 'held'
  held.grantSentAt = sentAt
  held.sentAt = sentAt
  held.deadline = deadline
  held.dangerAt = dangerAt(life, deadline, life.ttlMs)
  held.nextAt = leaving === undefined ? holderBeat(life, sentAt, at) : Infinity
  held.inFlight = lease.inFlight
  held.failures = 0
  held.leaving = leaving
  const effects: Effect[] = [{ type: 'granted', fence: status.fence, after: status.after, at }]
  if (leaving !== undefined) effects.push({ type: 'leaving', reason: leaving, leftMs: Math.floor(held.deadline - at) })
  return [held, effects]
}

function renewed(
  life: Life,
  status: Extract<ClaimStatus, { state: 'held' }>,
  event: Extract<Event, { type: 'answer' }>,
): Stepped {
  const { sentAt, at } = event
  const leftMs = lastsMs(life, status.ttlMs, event)
  const leaving = status.leaving ?? life.leaving
  const next = answeredTo(life, event)
  // One of our own is under way still, for a ttl that is no longer in force, or was when the other thread asked: it may have been
  // for less, and be carried out after this one.
  const overtaken = (next.inFlight && life.askAgain) || (event.elsewhere === true && sentAt <= life.answeredAt)
  const deadline = withinHold(life, Math.min(trustedUntil(sentAt, leftMs), overtaken ? life.deadline : Infinity))
  next.sentAt = sentAt
  next.failures = 0
  next.lastError = undefined
  next.leaving = leaving
  if (leaving === undefined) {
    next.deadline = deadline
    next.dangerAt = dangerAt(life, deadline, life.ttlMs)
    next.nextAt = holderBeat(life, sentAt, at)
  } else {
    // A holder that was asked to leave is promised no more than it has.
    next.deadline = Math.min(deadline, life.deadline)
    next.nextAt = Infinity
  }
  if (at >= next.deadline) return lose(next, whyOver(next), undefined)
  if (leaving === undefined) return [next, event.elsewhere === true ? renewalElsewhere : renewal]
  if (life.leaving !== undefined) return [next, nothing]
  return [next, [{ type: 'leaving', reason: leaving, leftMs: Math.floor(next.deadline - at) }]]
}

function queued(
  life: Life,
  status: Extract<ClaimStatus, { state: 'waiting' }>,
  event: Extract<Event, { type: 'answer' }>,
): Stepped {
  const { at, sentAt, roll } = event
  const polls = life.polling === undefined ? 0 : life.failures + 1
  const pollMs = life.polling === undefined ? Infinity : pauseMs(life.polling, polls, roll)
  const waiting = copyOf(life)
  waiting.phase = 'waiting'
  waiting.sentAt = sentAt
  waiting.deadline = trustedUntil(sentAt, lastsMs(life, status.ttlMs, event))
  waiting.nextAt = Math.min(waiterBeat(life, sentAt, at), at + Math.min(status.againMs, pollMs))
  waiting.inFlight = false
  waiting.failures = polls
  return [waiting, [{ type: 'queued', ahead: status.ahead }]]
}

function ended(life: Life, status: Extract<ClaimStatus, { state: 'absent' }>): Stepped {
  if (life.phase === 'held') return gone(life, status)
  const over = copyOf(life)
  over.phase = 'over'
  return [over, [{ type: 'refused', status }]]
}

function gone(life: Life, status: Extract<ClaimStatus, { state: 'absent' }>): Stepped {
  if (life.converting === 'no' || status.reason !== 'unknown') return lose(life, status.reason, status.detail)
  // The claim that was to take its place may have done so: that one will tell. The deadline stands until then.
  const doubtful = noLongerInFlight(life)
  doubtful.askAgain = false
  doubtful.nextAt = Infinity
  doubtful.converting = 'in doubt'
  return [doubtful, nothing]
}

function failed(life: Life, error: unknown, event: Extract<Event, { type: 'answer' }>): Stepped {
  // A conversion is not released for being unknown: granted, it is all its owner has. The same claim is sent again.
  const mayAskAgain = life.phase !== 'asking' || life.claim.replaces !== undefined
  if (!mayAskAgain) return clearAway(life, event.at, { type: 'failed', error })
  const failures = life.failures + 1
  // Try again well inside what is left; the deadline stands whatever happens.
  const backoff = { attempts: Infinity, minMs: 20, maxMs: Math.max(20, life.ttlMs / 10), factor: 2, jitter: 0.3 }
  const next = answeredTo(life, event)
  next.doubtMs = Math.min(life.doubtMs ?? Infinity, event.askedMs)
  next.failures = failures
  next.lastError = error
  next.nextAt = event.at + pauseMs(backoff, failures, event.roll)
  return [next, [{ type: 'renewal-failed', error, own: event.elsewhere !== true }]]
}

/** Something was heard without asking. Only ever newer than what is known, or dropped. */
export function heard(life: Life, event: Extract<Event, { type: 'heard' }>): Stepped {
  const { news, at } = event
  if (life.phase !== 'asking' && life.phase !== 'waiting' && life.phase !== 'held') return [life, nothing]
  if (news === 'ask') return life.phase === 'asking' ? [life, nothing] : renewNow(life, at)
  if (news.state === 'absent') return ended(life, news)
  if (news.state !== 'held') return [life, nothing]
  if (life.phase === 'held') return heardLeaving(life, news, at)
  // However late the news: the grant came after our last request, and its lease ends when that request said. What the
  // news say is left can only make that less: they may have been on their way for any time.
  const { maxHoldMs } = life.claim
  const longest = maxHoldMs === undefined ? Infinity : trustedUntil(life.sentAt, maxHoldMs)
  const deadline = Math.min(life.deadline, trustedUntil(at, news.ttlMs), longest)
  if (deadline - at > life.ttlMs / 3) return granted(life, news, life.sentAt, at, { deadline, inFlight: life.inFlight })
  // Little of it may be left: renew first, and tell the owner when that is answered.
  if (life.phase !== 'asking') return renewNow(life, at)
  const asking = copyOf(life)
  asking.askAgain = true
  return [asking, nothing]
}

/** A later request was answered before: the answer changes nothing, but whoever awaits it must be told. */
function outdated(life: Life, event: Extract<Event, { type: 'answer' }>): Stepped {
  const { status, askedMs, elsewhere } = event
  const next = answeredTo(life, event)
  if (status.state === 'unknown') next.doubtMs = Math.min(life.doubtMs ?? Infinity, askedMs)
  if (elsewhere === true || life.phase !== 'held' || life.leaving !== undefined) return [next, nothing]
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
function answeredTo(life: Life, { elsewhere, at }: Extract<Event, { type: 'answer' }>): LifeDraft {
  if (elsewhere === true) return copyOf(life)
  const next = noLongerInFlight(life)
  next.answeredAt = Math.ceil(at)
  return next
}

function noLongerInFlight(life: Life): LifeDraft {
  const next = copyOf(life)
  next.inFlight = false
  return next
}

function heardLeaving(life: Life, news: Extract<ClaimStatus, { state: 'held' }>, at: number): Stepped {
  if (news.leaving === undefined || life.leaving !== undefined) return [life, nothing]
  const leaving = copyOf(life)
  leaving.leaving = news.leaving
  leaving.nextAt = Infinity
  trustAtMost(leaving, news.ttlMs, at)
  return [leaving, [{ type: 'leaving', reason: news.leaving, leftMs: Math.max(0, Math.floor(leaving.deadline - at)) }]]
}
