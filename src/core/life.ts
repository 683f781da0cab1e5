/**
 * The life of one claim in the client, as one pure function: `step(life, event) → [life, effects]`.
 *
 * There is no clock, timer or promise here. Every event carries the time at which it happened on the client's clock; a
 * thin runtime (`claim-runtime.ts`) turns effects into sends and callbacks and wakes the claim at `wakeAt(life)`. A simulator
 * can drive it millions of times. The parts are in `life/`.
 */
import { trustedUntil } from './time/deadline.ts'
import type { Claim } from './driver.ts'
import { answered, heard } from './life/answer.ts'
import { askedElsewhere, beatEvery, renewNow, withTtl } from './life/beat.ts'
import { conversionUnderWay, letGo, passOn, releaseAnswered, withdraw } from './life/ending.ts'
import { nothing, type Event, type Life, type RenewalPolicy, type Stepped } from './life/state.ts'
import { ticked } from './life/tick.ts'

export { boundOf, nextBeat, paceOf, spreadOf } from './life/beat.ts'
export type { Effect, Event, Life, RenewalPolicy, Stepped } from './life/state.ts'

/** A new claim, about to be sent. */
export function begin(claim: Claim, terms: RenewalPolicy, at: number): Stepped {
  const sentAt = Math.floor(at)
  const life: Life = {
    phase: 'asking',
    claim,
    ttlMs: claim.ttlMs,
    heartbeatMs: terms.heartbeatMs,
    polling: terms.polling,
    spread: terms.spread,
    grantSentAt: sentAt,
    sentAt,
    // No answer by then is worth having: the lease it grants would be over.
    deadline: trustedUntil(sentAt, claim.ttlMs),
    doubtMs: undefined,
    elsewhereMs: undefined,
    answeredAt: -1,
    nextAt: Infinity,
    inFlight: true,
    askAgain: false,
    failures: 0,
    lastError: undefined,
    dangerAt: Infinity,
    leaving: undefined,
    converting: 'no',
    hold: terms.hold,
    withdrawn: false,
  }
  return [life, [{ type: 'send', request: { op: 'claim', claim } }]]
}

/** When the claim wants its next tick. */
export function wakeAt(life: Life): number {
  switch (life.phase) {
    case 'held':
      return Math.min(life.inFlight ? Infinity : life.nextAt, life.dangerAt, life.deadline)
    case 'asking':
    case 'waiting':
      return Math.min(life.inFlight ? Infinity : life.nextAt, life.deadline)
    case 'releasing':
      return life.inFlight ? life.deadline : life.nextAt
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
    case 'elsewhere':
      return askedElsewhere(life, event.ttlMs, event.at)
    case 'release-answer':
      return releaseAnswered(life, event)
    case 'heard':
      return heard(life, event)
    case 'tick':
      return ticked(life, event.at)
    case 'release':
      return letGo(life, event.at)
    case 'withdraw':
      return withdraw(life, event.at)
    case 'renew':
      return life.phase === 'held' ? renewNow(withTtl(life, event.ttlMs), event.at) : [life, nothing]
    case 'heartbeat':
      return beatEvery(life, event.everyMs, event.at)
    case 'converting':
      return conversionUnderWay(life, event)
    case 'pass-on':
      return passOn(life)
  }
}
