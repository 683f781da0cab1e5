import type { BatchedTransactions } from './batched-transactions.ts'
import { isRefused } from './faults.ts'
import type { Keyspace } from './keyspace.ts'
import type { Leases } from './leases.ts'
import { isOnLease, range, remove, unchangedSince } from './messages.ts'
import type { OwnClaim } from './own-claims.ts'

export interface OverdueSetup {
  readonly transactions: BatchedTransactions
  readonly keyspace: Keyspace
  readonly leases: Leases
  readonly timeoutMs: number
}

/**
 * Removes the markers of claims of ours that nobody has renewed: the lease they are on may live on for others. A marker
 * that is on another's lease by now is in other hands, and one that was put anew meanwhile has been renewed after all.
 * `unknown`: it may yet be done. Never rejects.
 */
export async function endOverdue(
  { transactions, keyspace, leases, timeoutMs }: OverdueSetup,
  claims: readonly OwnClaim[],
): Promise<'removed' | 'unknown'> {
  const markers = claims.map(({ key, id }) => keyspace.marker(key, id))
  try {
    const readings = await transactions.read(
      markers.map((key) => [range({ key, keysOnly: true })]),
      timeoutMs,
    )
    const ours = readings
      .flatMap(({ found: [pairs = []] }) => pairs)
      .filter(({ lease }) => leases.leftMs(lease) !== undefined)
    const removals = ours.map(({ key, modRevision, lease }) => ({
      compare: [unchangedSince(key, modRevision), isOnLease(key, lease)],
      success: [remove(key)],
    }))
    const outcomes = await transactions.write(removals, timeoutMs)
    return outcomes.some((outcome) => 'fault' in outcome && !isRefused(outcome.fault)) ? 'unknown' : 'removed'
  } catch {
    return 'unknown'
  }
}
