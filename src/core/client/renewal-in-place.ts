/**
 * A shortcut of `claim-step.ts` for what nearly every event of a held claim is: its renewal is due, or was answered and
 * nothing else has happened. A process may renew very many claims. Two copies of the state for each renewal live longer than
 * the garbage collector expects of new objects, and are expensive to collect.
 *
 * Each function does what `step` would do, with the same parts, or answers that it did nothing: then `step` decides.
 */
import { trustedUntil } from '../time/deadline.ts'
import type { HeldStatus, Request } from '../contract/driver.ts'
import { extend, lastsMs, renewalSent, withinHold } from './claim-renewal.ts'
import type { ClaimState } from './claim-state.ts'

/** The renewal to send, if a tick at `at` does nothing else. Undefined: left to `step`, and nothing was changed. */
export function renewInPlace(state: ClaimState, at: number): Request | undefined {
  if (state.phase !== 'held' || state.inFlight || at < state.nextAt) return undefined
  return at < state.dangerAt && at < state.deadline ? renewalSent(state.inPlace(), at) : undefined
}

/** Applies the answer `held` to a renewal of this thread. False: left to `step`, and nothing was changed. */
export function renewedInPlace(
  state: ClaimState,
  status: HeldStatus,
  askedMs: number,
  sentAt: number,
  at: number,
): boolean {
  if (state.phase !== 'held' || sentAt < state.sentAt || state.askAgain) return false
  if (status.leaving !== undefined || state.leaving !== undefined) return false
  const deadline = withinHold(state, trustedUntil(sentAt, lastsMs(state, status.ttlMs, askedMs)))
  if (at >= deadline) return false
  const held = state.inPlace()
  held.inFlight = false
  held.answeredAt = Math.ceil(at)
  extend(held, deadline, sentAt, at)
  return true
}
