import { LeaseholdError } from '../../core/errors.ts'
import { describeScope, type Scope } from '../../core/contract/scope.ts'

/** The part of a lease that its errors tell. */
interface LeaseFacts {
  readonly scope: Scope
  readonly key: string
  readonly fence: number
}

/** How a lease ended that is no longer held, as `renew` says it. */
export type LeaseEnding = 'released' | 'converted' | 'handed-off' | 'lost'

const endings: Readonly<Record<LeaseEnding, string>> = {
  released: 'has been released. Acquire it again before going on.',
  converted: 'has been converted. Go on with the lease that upgrade() or downgrade() gave.',
  'handed-off': 'has been handed off: it belongs to whoever resumes it.',
  lost: 'was lost. Acquire it again before going on.',
}

/** For what can only be done with a lease that is held. */
export function notHeld(lease: LeaseFacts, ending: LeaseEnding, loss: LeaseholdError | undefined): LeaseholdError {
  return new LeaseholdError('NOT_HELD', `${nameOf(lease)} ${endings[ending]}`, {
    ...detailsOf(lease),
    ...(loss !== undefined && { cause: loss }),
  })
}

/** For a lease that was asked to leave: it is not extended any more. */
export function askedToLeave(lease: LeaseFacts, reason: string): LeaseholdError {
  return new LeaseholdError('NOT_HELD', `${nameOf(lease)} was asked to leave: ${reason}.`, detailsOf(lease))
}

/** For what cannot be done with a lease that is about to be another's. */
export function beingPassedOn(lease: LeaseFacts, how: 'converted' | 'handed-off'): LeaseholdError {
  const what =
    how === 'converted' ? 'converted already. Await that, or abort it by its signal' : 'handed off. Await that'
  return new LeaseholdError('INVALID', `${nameOf(lease)} is being ${what}.`)
}

/** For a renewal whose answer says nothing of it. */
export function notRenewed(lease: LeaseFacts): LeaseholdError {
  return new LeaseholdError('UNAVAILABLE', `${nameOf(lease)} may not have been renewed. Renew it again.`, {
    ...detailsOf(lease),
    reason: 'no-answer',
  })
}

/** What a lease is lost with. */
export function lost(lease: LeaseFacts, reason: string, detail: string | undefined, ttlMs: number): LeaseholdError {
  const why = detail === undefined ? reason : `${reason}: ${detail}`
  const whats: Readonly<Record<string, string>> = {
    expired: `${nameOf(lease)} was not renewed for ${Math.round(ttlMs)} ms`,
    'no-progress': `${nameOf(lease)} was not renewed any more: its work made no progress`,
    'max-hold': `${nameOf(lease)} was held for as long as it may be`,
  }
  const what = whats[reason] ?? `${nameOf(lease)} was taken away (${why})`
  return new LeaseholdError('LOST', `${what}. Stop writing; fence ${lease.fence} may be superseded.`, {
    ...detailsOf(lease),
    reason: why,
  })
}

function detailsOf({ scope, key, fence }: LeaseFacts) {
  return { scope: describeScope(scope), key, fence }
}

function nameOf({ scope }: LeaseFacts): string {
  return JSON.stringify(describeScope(scope))
}
