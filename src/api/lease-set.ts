import type { Lease } from './lease.ts'
import type { ReleaseResult } from './release-result.ts'

/** Several locks, held together: what `locks.acquireAll` gives. */
export interface LeaseSet extends AsyncDisposable {
  /** In the canonical order of their keys. */
  readonly leases: readonly Lease[]
  /** Aborts as soon as one of the leases is lost. */
  readonly signal: AbortSignal
  /** Whether every one of them can still be trusted. */
  readonly held: boolean
  /** Lets all of them go, in one batch. */
  release(): Promise<readonly ReleaseResult[]>
}
