/**
 * The life of one claim in the client, as one pure function: `step(life, event) → [life, effects]`.
 *
 * There is no clock, timer or promise here. Every event carries the time at which it happened on the client's clock; a
 * thin runtime (`tenure.ts`) turns effects into sends and callbacks and wakes the claim at `wakeAt(life)`. A simulator
 * can drive it millions of times.
 */
import { pauseMs, type Backoff } from './backoff.ts'
import { trustedUntil } from './deadline.ts'
import type { Claim, Request, Standing, Succession } from './driver.ts'
import { LeaseholdError, messageOf } from './errors.ts'

/**
 * asking: sent, not answered. waiting: queued. held. lost: ended against its owner's will. releasing: being given back,
 * or cleared away after an outcome that is not known. over: nothing is left to do.
 */
export type Phase = 'asking' | 'waiting' | 'held' | 'lost' | 'releasing' | 'over'

export interface Life {
  readonly phase: Phase
  readonly claim: Claim
  /** In force: `renew` may have changed it. */
  readonly ttlMs: number
  /** How often to renew; Infinity: only when asked to. */
  readonly heartbeatMs: number
  /** How to ask while waiting if the store cannot push. */
  readonly polling: Backoff | undefined
  /** From 0 to 1, different for each claim: keeps heartbeats of leases taken together from staying together. */
  readonly spread: number
  readonly fence: number
  /** When the request was sent whose answer gave the claim its present end. */
  readonly sentAt: number
  /** When the present end of the claim, as the store told it, can no longer be trusted. */
  readonly deadline: number
  /** When to renew or ask next. */
  readonly nextAt: number
  /** A claim or renewal is on its way. */
  readonly inFlight: boolean
  /** Ask once more when the one on its way is answered. */
  readonly askAgain: boolean
  /** Failed renewals, or unanswered polls, in a row. */
  readonly failures: number
  readonly lastError: unknown
  readonly inJeopardy: boolean
  readonly leaving: string | undefined
}

export type Event =
  /** A claim or renewal sent at `sentAt` was answered. `roll` is a random number from 0 to 1. */
  | {
      readonly type: 'answer'
      readonly at: number
      readonly sentAt: number
      readonly standing: Standing
      readonly roll: number
    }
  | { readonly type: 'release-answer'; readonly at: number; readonly standing: Standing; readonly roll: number }
  | { readonly type: 'heard'; readonly at: number; readonly news: Standing | 'ask' }
  /** Time has passed. */
  | { readonly type: 'tick'; readonly at: number }
  /** The owner lets go, or no longer wants to wait. */
  | { readonly type: 'release'; readonly at: number }
  | { readonly type: 'renew'; readonly at: number; readonly ttlMs: number }
  | { readonly type: 'heartbeat'; readonly at: number; readonly everyMs: number }

export type Effect =
  | { readonly type: 'send'; readonly request: Request }
  | { readonly type: 'granted'; readonly fence: number; readonly after: Succession | undefined; readonly at: number }
  | { readonly type: 'queued'; readonly ahead: number }
  /** Not granted, and no claim is left behind. */
  | { readonly type: 'refused'; readonly standing: Extract<Standing, { state: 'absent' }> }
  /** Whether it was granted is not known; it is being released. */
  | { readonly type: 'failed'; readonly error: unknown }
  | { readonly type: 'renewed' }
  | { readonly type: 'renewal-failed'; readonly error: unknown }
  | { readonly type: 'jeopardy'; readonly reason: string; readonly leftMs: number }
  | { readonly type: 'leaving'; readonly reason: string; readonly leftMs: number }
  | { readonly type: 'lost'; readonly reason: string; readonly detail: string | undefined }
  /** The store's word on the release; `unknown` if it gave none yet. */
  | { readonly type: 'released'; readonly standing: Standing }

export type Stepped = readonly [Life, readonly Effect[]]

export interface LifeTerms {
  readonly heartbeatMs: number
  readonly polling: Backoff | undefined
  readonly spread: number
}

const nothing: readonly Effect[] = []
const releaseRetry: Backoff = { attempts: Infinity, minMs: 50, maxMs: 2000, factor: 2, jitter: 0.2 }

/** A new claim, about to be sent. */
export function begin(claim: Claim, terms: LifeTerms, at: number): Stepped {
  const life: Life = {
    phase: 'asking',
    claim,
    ttlMs: claim.ttlMs,
    heartbeatMs: terms.heartbeatMs,
    polling: terms.polling,
    spread: terms.spread,
    fence: 0,
    sentAt: at,
    // No answer by then is worth having: the lease it grants would be over.
    deadline: trustedUntil(at, claim.ttlMs),
    nextAt: Infinity,
    inFlight: true,
    askAgain: false,
    failures: 0,
    lastError: undefined,
    inJeopardy: false,
    leaving: undefined,
  }
  return [life, [{ type: 'send', request: { op: 'claim', claim } }]]
}

/** When the claim wants its next tick. */
export function wakeAt(life: Life): number {
  switch (life.phase) {
    case 'held': {
      const danger = life.inJeopardy ? life.deadline : jeopardyAt(life)
      return Math.min(life.inFlight ? Infinity : life.nextAt, danger)
    }
    case 'asking':
    case 'waiting':
      return Math.min(life.inFlight ? Infinity : life.nextAt, life.deadline)
    case 'releasing':
      return life.inFlight ? Infinity : life.nextAt
    case 'lost':
    case 'over':
      return Infinity
  }
}

/** Moves a claim on by one event. */
export function step(life: Life, event: Event): Stepped {
  switch (event.type) {
    case 'answer':
      return answered(life, event)
    case 'release-answer':
      return releaseAnswered(life, event)
    case 'heard':
      return heard(life, event)
    case 'tick':
      return ticked(life, event.at)
    case 'release':
      return letGo(life, event.at)
    case 'renew':
      return life.phase === 'held' ? renewNow(withTtl(life, event.ttlMs)) : [life, nothing]
    case 'heartbeat':
      return beatEvery(life, event.everyMs, event.at)
  }
}

// ---- answers

function answered(life: Life, event: Extract<Event, { type: 'answer' }>): Stepped {
  const { sentAt } = event
  if (life.phase !== 'asking' && life.phase !== 'waiting' && life.phase !== 'held') return [life, nothing]
  // Older news: a later request has been answered already.
  if (sentAt < life.sentAt) return [{ ...life, inFlight: false }, nothing]
  const [next, effects] = landed(life, event)
  if (!next.askAgain || next.inFlight || (next.phase !== 'held' && next.phase !== 'waiting')) return [next, effects]
  const [asked, more] = renewNow({ ...next, askAgain: false })
  return [asked, [...effects, ...more]]
}

/** What an answer to a claim or a renewal means: it is no longer on its way. */
function landed(life: Life, event: Extract<Event, { type: 'answer' }>): Stepped {
  const { standing, sentAt, at } = event
  switch (standing.state) {
    case 'held':
      if (life.phase === 'held') return renewed(life, standing, sentAt, at)
      return granted(life, standing, sentAt, at, {
        deadline: trustedUntil(sentAt, standing.ttlMs),
        inFlight: false,
      })
    case 'waiting':
      // A grant that was pushed meanwhile is newer than this.
      return life.phase === 'held' ? [{ ...life, inFlight: false }, nothing] : queued(life, standing, event)
    case 'absent':
      return ended(life, standing)
    case 'unknown':
      return failed(life, standing.error, event)
  }
}

function granted(
  life: Life,
  standing: Extract<Standing, { state: 'held' }>,
  sentAt: number,
  at: number,
  lease: { readonly deadline: number; readonly inFlight: boolean },
): Stepped {
  if (at >= lease.deadline) {
    // The answer took as long as the lease: nobody must see this grant.
    const error = new LeaseholdError('UNAVAILABLE', `The store took ${Math.round(at - sentAt)} ms to answer.`, {
      reason: 'no-answer',
    })
    return clearAway(life, at, { type: 'failed', error })
  }
  const { leaving } = standing
  const held: Life = {
    ...life,
    phase: 'held',
    fence: standing.fence,
    sentAt,
    deadline: lease.deadline,
    nextAt: leaving === undefined ? holderBeat(life, sentAt, at) : Infinity,
    inFlight: lease.inFlight,
    failures: 0,
    leaving,
  }
  const effects: Effect[] = [{ type: 'granted', fence: standing.fence, after: standing.after, at }]
  if (leaving !== undefined) effects.push({ type: 'leaving', reason: leaving, leftMs: held.deadline - at })
  return [held, effects]
}

function renewed(life: Life, standing: Extract<Standing, { state: 'held' }>, sentAt: number, at: number): Stepped {
  const deadline = trustedUntil(sentAt, standing.ttlMs)
  const leaving = standing.leaving ?? life.leaving
  const next: Life = {
    ...life,
    fence: Math.max(life.fence, standing.fence),
    sentAt,
    // A holder that was asked to leave is promised no more than it has.
    deadline: leaving === undefined ? deadline : Math.min(deadline, life.deadline),
    nextAt: leaving === undefined ? holderBeat(life, sentAt, at) : Infinity,
    inFlight: false,
    failures: 0,
    lastError: undefined,
    leaving,
    inJeopardy: leaving !== undefined && life.inJeopardy,
  }
  if (at >= next.deadline) return lose(next, leaving ?? 'expired', undefined)
  if (leaving === undefined) return [next, [{ type: 'renewed' }]]
  if (life.leaving !== undefined) return [next, nothing]
  return [next, [{ type: 'leaving', reason: leaving, leftMs: next.deadline - at }]]
}

function queued(
  life: Life,
  standing: Extract<Standing, { state: 'waiting' }>,
  event: Extract<Event, { type: 'answer' }>,
): Stepped {
  const { at, sentAt, roll } = event
  const polls = life.polling === undefined ? 0 : life.failures + 1
  const pollMs = life.polling === undefined ? Infinity : pauseMs(life.polling, polls, roll)
  const waiting: Life = {
    ...life,
    phase: 'waiting',
    sentAt,
    deadline: trustedUntil(sentAt, standing.ttlMs),
    nextAt: Math.min(waiterBeat(life, sentAt, at), at + Math.min(standing.againMs, pollMs)),
    inFlight: false,
    failures: polls,
  }
  return [waiting, [{ type: 'queued', ahead: standing.ahead }]]
}

function ended(life: Life, standing: Extract<Standing, { state: 'absent' }>): Stepped {
  if (life.phase === 'held') return lose(life, standing.reason, standing.detail)
  return [{ ...life, phase: 'over' }, [{ type: 'refused', standing }]]
}

function failed(life: Life, error: unknown, event: Extract<Event, { type: 'answer' }>): Stepped {
  if (life.phase === 'asking') return clearAway(life, event.at, { type: 'failed', error })
  const failures = life.failures + 1
  // Try again well inside what is left; the deadline stands whatever happens.
  const backoff = { attempts: Infinity, minMs: 20, maxMs: Math.max(20, life.ttlMs / 10), factor: 2, jitter: 0.3 }
  const nextAt = event.at + pauseMs(backoff, failures, event.roll)
  const next = { ...life, inFlight: false, failures, lastError: error, nextAt }
  return [next, [{ type: 'renewal-failed', error }]]
}

function releaseAnswered(life: Life, event: Extract<Event, { type: 'release-answer' }>): Stepped {
  const { standing, at, roll } = event
  if (life.phase !== 'releasing') return [life, life.phase === 'lost' ? [{ type: 'released', standing }] : nothing]
  const effects: Effect[] = life.failures === 0 || standing.state !== 'unknown' ? [{ type: 'released', standing }] : []
  if (standing.state !== 'unknown') return [{ ...life, phase: 'over', inFlight: false }, effects]
  const failures = life.failures + 1
  const nextAt = at + pauseMs(releaseRetry, failures, roll)
  // Past its ttl the store has forgotten the claim by itself.
  if (nextAt >= life.deadline) return [{ ...life, phase: 'over', inFlight: false }, effects]
  return [{ ...life, inFlight: false, failures, nextAt }, effects]
}

// ---- news

function heard(life: Life, event: Extract<Event, { type: 'heard' }>): Stepped {
  const { news, at } = event
  if (life.phase !== 'asking' && life.phase !== 'waiting' && life.phase !== 'held') return [life, nothing]
  if (news === 'ask') return life.phase === 'asking' ? [life, nothing] : renewNow(life)
  if (news.state === 'absent') return ended(life, news)
  if (news.state !== 'held') return [life, nothing]
  if (life.phase === 'held') return heardLeaving(life, news, at)
  // However late the news: the grant came after our last request, and its lease ends when that request said.
  const { maxHoldMs } = life.claim
  const deadline = Math.min(life.deadline, maxHoldMs === undefined ? Infinity : trustedUntil(life.sentAt, maxHoldMs))
  if (deadline - at > life.ttlMs / 3) return granted(life, news, life.sentAt, at, { deadline, inFlight: life.inFlight })
  // Little of it may be left: renew first, and tell the owner when that is answered.
  return life.phase === 'asking' ? [{ ...life, askAgain: true }, nothing] : renewNow(life)
}

function heardLeaving(life: Life, news: Extract<Standing, { state: 'held' }>, at: number): Stepped {
  if (news.leaving === undefined || life.leaving !== undefined) return [life, nothing]
  const leaving: Life = { ...life, leaving: news.leaving, nextAt: Infinity }
  return [leaving, [{ type: 'leaving', reason: news.leaving, leftMs: life.deadline - at }]]
}

// ---- time

function ticked(life: Life, at: number): Stepped {
  switch (life.phase) {
    case 'asking': {
      if (at < life.deadline) return [life, nothing]
      const error = new LeaseholdError(
        'UNAVAILABLE',
        `The store has not answered for ${Math.round(at - life.sentAt)} ms.`,
        {
          reason: 'no-answer',
        },
      )
      return clearAway(life, at, { type: 'failed', error })
    }
    case 'waiting':
      // Our place in the queue may be gone: clear it away and let the caller queue anew.
      if (at >= life.deadline) {
        return clearAway(life, at, { type: 'refused', standing: { state: 'absent', reason: 'expired' } })
      }
      return at >= life.nextAt && !life.inFlight ? renewNow(life) : [life, nothing]
    case 'held':
      return tickedWhileHeld(life, at)
    case 'releasing':
      return at >= life.nextAt && !life.inFlight ? releaseAgain(life) : [life, nothing]
    case 'lost':
    case 'over':
      return [life, nothing]
  }
}

function tickedWhileHeld(life: Life, at: number): Stepped {
  if (at >= life.deadline) {
    const detail = life.lastError === undefined ? undefined : messageOf(life.lastError)
    return lose(life, life.leaving ?? 'expired', detail)
  }
  const effects: Effect[] = []
  let next = life
  if (!life.inJeopardy && at >= jeopardyAt(life)) {
    const reason = life.leaving ?? (life.lastError === undefined ? 'not renewed' : messageOf(life.lastError))
    effects.push({ type: 'jeopardy', reason, leftMs: life.deadline - at })
    next = { ...life, inJeopardy: true }
  }
  if (at < next.nextAt || next.inFlight) return [next, effects]
  const [renewing, more] = renewNow(next)
  return [renewing, [...effects, ...more]]
}

/** In danger once a third of the lease is all that is left. */
function jeopardyAt(life: Life): number {
  return life.deadline - life.ttlMs / 3
}

function beatEvery(life: Life, everyMs: number, at: number): Stepped {
  const changed: Life = { ...life, heartbeatMs: everyMs }
  if (life.phase !== 'held' || life.leaving !== undefined) return [changed, nothing]
  return [{ ...changed, nextAt: holderBeat(changed, life.sentAt, at) }, nothing]
}

/** When to renew a lease that was given or renewed at `sentAt`; never, if its holder does that by hand. */
function holderBeat(life: Life, sentAt: number, at: number): number {
  return life.heartbeatMs === Infinity ? Infinity : nextBeat(life.heartbeatMs, life.spread, sentAt, at)
}

/** A waiter keeps its place by itself, whatever its owner wants to do by hand once it holds. */
function waiterBeat(life: Life, sentAt: number, at: number): number {
  return nextBeat(Math.min(life.heartbeatMs, life.ttlMs / 3), life.spread, sentAt, at)
}

/** Renewals fall on a common beat, so that many share a batch, and a little early, each by its own amount. */
export function nextBeat(everyMs: number, spread: number, sentAt: number, at: number): number {
  const beatMs = Math.min(250, Math.max(1, everyMs / 40))
  const dueAt = sentAt + everyMs * (0.9 + 0.1 * spread)
  return Math.max(at, Math.floor(dueAt / beatMs) * beatMs)
}

/** A heartbeat that leaves no room for a failure under the new ttl is quickened. */
function withTtl(life: Life, ttlMs: number): Life {
  const tooSlow = life.heartbeatMs !== Infinity && life.heartbeatMs > ttlMs / 2
  return { ...life, ttlMs, heartbeatMs: tooSlow ? ttlMs / 3 : life.heartbeatMs }
}

function renewNow(life: Life): Stepped {
  if (life.inFlight) return [{ ...life, askAgain: true }, nothing]
  const { key, id } = life.claim
  return [{ ...life, inFlight: true }, [{ type: 'send', request: { op: 'renew', key, id, ttlMs: life.ttlMs } }]]
}

// ---- endings

function lose(life: Life, reason: string, detail: string | undefined): Stepped {
  return [{ ...life, phase: 'lost', inFlight: false, nextAt: Infinity }, [{ type: 'lost', reason, detail }]]
}

function letGo(life: Life, at: number): Stepped {
  switch (life.phase) {
    case 'asking':
    case 'waiting':
    case 'held':
      return clearAway(life, at)
    case 'lost':
      // The store may still keep it, in its grace: say that we are gone.
      return [life, [releaseRequest(life)]]
    case 'releasing':
    case 'over':
      return [life, nothing]
  }
}

/** Releases by id, and goes on trying for as long as the store may keep the claim. */
function clearAway(life: Life, at: number, effect?: Effect): Stepped {
  const deadline = at + life.ttlMs + life.claim.graceMs
  const releasing: Life = { ...life, phase: 'releasing', failures: 0, deadline, inFlight: true, nextAt: Infinity }
  const release = releaseRequest(life)
  return [releasing, effect === undefined ? [release] : [effect, release]]
}

function releaseAgain(life: Life): Stepped {
  return [{ ...life, inFlight: true, nextAt: Infinity }, [releaseRequest(life)]]
}

function releaseRequest(life: Life): Effect {
  return { type: 'send', request: { op: 'release', key: life.claim.key, id: life.claim.id } }
}
