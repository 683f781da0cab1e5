/** Parts of a lease that are made when they are first needed: a process may hold very many leases that need none of them. */
import type { LeaseholdError } from '../../core/errors.ts'
import type { AwaitedRenewals, Progress } from './awaited-renewals.ts'
import type { LeaseHandle } from './lease-handle.ts'
import type { ReleaseResult } from './release-result.ts'

/** How a lease has ended, or is ending. */
export class LeaseEnd {
  loss: LeaseholdError | undefined
  released: Promise<ReleaseResult> | undefined
  /** Settles `released`. */
  emitReleased: ((result: ReleaseResult) => void) | undefined
  /** Set when the lease has ended and its lock is still held. */
  passedOn: 'converted' | 'handed-off' | undefined
  successor: LeaseHandle | undefined
}

/** What a lease has beside its claim, if it is used for more than to hold and to release. */
export class LeaseExtras {
  abort: AbortController | undefined
  /** Callers that await a renewal. */
  renewing: AwaitedRenewals | undefined
  /** Only with the `progress` option. */
  progress: Progress | undefined
  /** A conversion or a hand-off is under way: it ends the lease and not its lock. */
  passing: 'converted' | 'handed-off' | undefined
  /** How often the lease has been entered and not yet left; see `reentrant`. */
  entries = 1
  /** The heartbeat, if another one than the terms say was started. */
  heartbeatMs: number | undefined
}
