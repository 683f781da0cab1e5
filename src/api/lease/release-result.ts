import type { ClaimStatus } from '../../core/contract/driver.ts'

/** How letting go went. Never an error: a lease that cannot be given back ends by itself. */
export interface ReleaseResult {
  readonly released: boolean
  /**
   * Why not. `already-released`; `entered-again`: a reentrant lease that was taken more often; `converted`, `handed-off`: the
   * lock is another lease's now; `lost`; `unavailable`: the store did not answer, and is asked again in the background. Or what
   * the store says: `expired`, `evicted`, `max-hold`, or `unknown` if it knows nothing of the claim any more.
   */
  readonly reason?:
    | 'already-released'
    | 'entered-again'
    | 'converted'
    | 'handed-off'
    | 'lost'
    | 'unavailable'
    | 'expired'
    | 'evicted'
    | 'max-hold'
    | 'unknown'
}

/** @internal */
export const alreadyReleased: ReleaseResult = { released: false, reason: 'already-released' }
/** @internal */
export const stillEntered: ReleaseResult = { released: false, reason: 'entered-again' }

const done: ReleaseResult = { released: true }

/** What the store's answer to a release means to its caller. @internal */
export function releaseResult(status: ClaimStatus): ReleaseResult {
  if (status.state !== 'absent') return { released: false, reason: 'unavailable' }
  switch (status.reason) {
    case 'released':
      return done
    case 'expired':
    case 'evicted':
    case 'max-hold':
      return { released: false, reason: status.reason }
    default:
      return { released: false, reason: 'unknown' }
  }
}
