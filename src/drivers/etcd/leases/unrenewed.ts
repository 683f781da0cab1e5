import type { BatchedTransactions } from '../batched-transactions.ts'
import { isLeaseGone, isEtcdRefusal } from '../rpc/errors.ts'
import type { GarbageLease } from './garbage-lease.ts'
import type { EtcdKeyspace } from '../keyspace.ts'
import type { Leases } from './leases.ts'
import { isOnLease, put, rangeOperation, remove, unchangedSince } from '../rpc/messages.ts'
import type { KeptClaim } from './claim-keeper.ts'

export interface UnrenewedSetup {
  readonly transactions: BatchedTransactions
  readonly keyspace: EtcdKeyspace
  readonly leases: Leases
  readonly garbage: GarbageLease
  readonly timeoutMs: number
}

/**
 * Removes the markers of claims of ours that nobody renewed: their lease may live on for other claims. Left alone are markers
 * that are by now on another driver's lease, which keeps the claim, and markers put again meanwhile, which were renewed after
 * all. `unknown`: the removal may yet happen. Never rejects.
 */
export async function endUnrenewed(
  setup: UnrenewedSetup,
  claims: readonly KeptClaim[],
): Promise<'removed' | 'unknown'> {
  // First: a claim made before this has a marker by then, and none is made after it.
  const isOver = await forbid(
    setup,
    claims.filter(({ state }) => state === 'asked'),
  )
  const outcome = await removeMarkers(setup, claims)
  return isOver ? outcome : 'unknown'
}

/** Forbids claims that may be on their way. False: they may still be made. */
async function forbid(
  { transactions, keyspace, garbage, timeoutMs }: UnrenewedSetup,
  claims: readonly KeptClaim[],
): Promise<boolean> {
  if (claims.length === 0) return true
  const lease = await garbage.leaseFor(0, timeoutMs)
  if (lease === 0) return false
  const outcomes = await transactions.write(
    claims.map(({ id }) => ({ compare: [], success: [put(keyspace.over(id), '', lease)] })),
    timeoutMs,
  )
  const faults = outcomes.flatMap((outcome) => ('fault' in outcome ? [outcome.fault] : []))
  if (faults.some(isLeaseGone)) garbage.forget()
  return faults.length === 0
}

async function removeMarkers(
  { transactions, keyspace, leases, timeoutMs }: UnrenewedSetup,
  claims: readonly KeptClaim[],
): Promise<'removed' | 'unknown'> {
  const markers = claims.map(({ key, id }) => keyspace.marker(key, id))
  try {
    const readings = await transactions.read(
      markers.map((key) => [rangeOperation({ key, keysOnly: true })]),
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
    return outcomes.some((outcome) => 'fault' in outcome && !isEtcdRefusal(outcome.fault)) ? 'unknown' : 'removed'
  } catch {
    return 'unknown'
  }
}
