/**
 * The life of one claim in the client, as one pure function: `step(state, event) → [state, effects]`.
 *
 * There is no clock, timer or promise here. Every event carries the time at which it happened on the client's clock; a
 * thin runtime (`claim-runtime.ts`) turns effects into sends and callbacks and wakes the claim at `wakeAt(state)`. A simulator
 * can drive it millions of times. The parts are in `state/`.
 */
import { trustedUntil } from './time/deadline.ts'
import type { Claim } from './driver.ts'
import { answered, onNotification } from './claim-state/answer.ts'
import { askedElsewhere, renewEvery, renewNow, withTtl } from './claim-state/renewal.ts'
import { conversionUnderWay, letGo, passOn, releaseAnswered, withdraw } from './claim-state/ending.ts'
import { nothing, type Event, type ClaimState, type RenewalPolicy, type Stepped } from './claim-state/state.ts'
import { ticked } from './claim-state/tick.ts'

export { boundOf, nextRenewalAt, heartbeatWithin, jitterOf } from './claim-state/renewal.ts'
export type { Effect, Event, ClaimState, RenewalPolicy, Stepped } from './claim-state/state.ts'

/** A new claim, about to be sent. */
export function begin(claim: Claim, terms: RenewalPolicy, at: number): Stepped {
  const sentAt = Math.floor(at)
  const state: ClaimState = {
    phase: 'asking',
    claim,
    ttlMs: claim.ttlMs,
    heartbeatMs: terms.heartbeatMs,
    polling: terms.polling,
    jitter: terms.jitter,
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
export function step(state: ClaimState, event: Event): Stepped {
  switch (event.type) {
    case 'answer':
      return answered(state, event)
    case 'elsewhere':
      return askedElsewhere(state, event.ttlMs, event.at)
    case 'release-answer':
      return releaseAnswered(state, event)
    case 'notified':
      return onNotification(state, event)
    case 'tick':
      return ticked(state, event.at)
    case 'release':
      return letGo(state, event.at)
    case 'withdraw':
      return withdraw(state, event.at)
    case 'renew':
      return state.phase === 'held' ? renewNow(withTtl(state, event.ttlMs), event.at) : [state, nothing]
    case 'heartbeat':
      return renewEvery(state, event.everyMs, event.at)
    case 'converting':
      return conversionUnderWay(state, event)
    case 'pass-on':
      return passOn(state)
  }
}
