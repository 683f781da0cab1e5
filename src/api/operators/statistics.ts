import { describeScope, splitStoreKey } from '../../core/contract/scope.ts'
import { LeaseholdError, plainMessageOf } from '../../core/errors.ts'
import type { Client } from '../client/client.ts'
import { eachLock } from './inspection.ts'

/** How many locks are counted before `truncated` is set. */
const locksCountedMax = 10_000

/** Everything a client has counted, and the locks of its namespace now. */
export interface Statistics {
  /** Events since `connect`, under the names metrics are published by. */
  readonly counters: Readonly<Record<string, number>>
  /** `lock.NAME.holder` (a runner id) and `lock.NAME.hold_duration_ms` (how long this client held it last). */
  readonly gauges: Readonly<Record<string, string | number>>
  /** Locks that are held or waited for, in this namespace. */
  readonly totalLocks: number
  /** Locks of these that this client holds. */
  readonly myLocks: number
  /** Locks held by a lease that has not expired. */
  readonly activeLocks: number
  /** Locks held by a lease that is over and not cleared yet. */
  readonly staleLocks: number
  /** True if there were too many locks to count them all. */
  readonly truncated: boolean
  /** Why the store could not be read: then the four above are 0, and everything else is what this client knows itself. */
  readonly storeError?: LeaseholdError
  /** Leases of this client that renew by themselves. */
  readonly activeHeartbeats: number
  readonly totalAcquisitions: number
  readonly totalConflicts: number
  readonly failedAcquisitions: number
  readonly staleLocksClaimed: number
  readonly averageAcquisitionTimeMs: number
}

type Gauges = Record<string, string | number>
type StoreCounts = Pick<Statistics, 'totalLocks' | 'activeLocks' | 'staleLocks' | 'truncated' | 'storeError'>

const nothingCounted = { totalLocks: 0, activeLocks: 0, staleLocks: 0, truncated: false } as const

/** Counts the locks of the namespace, and notes who holds them. */
async function countLocks(client: Client, gauges: Gauges): Promise<StoreCounts> {
  const counts = { ...nothingCounted } as { -readonly [Name in keyof StoreCounts]: StoreCounts[Name] }
  for await (const lock of eachLock(client, { limit: 1000 })) {
    if (counts.totalLocks === locksCountedMax) return { ...counts, truncated: true }
    counts.totalLocks += 1
    if (lock.holders.some((holder) => !holder.expired)) counts.activeLocks += 1
    if (lock.holders.some((holder) => holder.expired)) counts.staleLocks += 1
    const holder = lock.holders[0]
    if (holder !== undefined) gauges[`lock.${lock.scope}.holder`] = holder.runner.id
  }
  return counts
}

/** What is counted of a store that cannot be read. An error that is not about reading, such as CLOSED, is thrown on. */
function notCounted(error: unknown): StoreCounts {
  if (error instanceof LeaseholdError && error.code !== 'UNAVAILABLE') throw error
  const { reason = 'network', retryAfterMs } = error instanceof LeaseholdError ? error : {}
  const why = `The locks of the store could not be counted: ${plainMessageOf(error)}`
  const details = { cause: error, reason, ...(retryAfterMs !== undefined && { retryAfterMs }) }
  return { ...nothingCounted, storeError: new LeaseholdError('UNAVAILABLE', why, details) }
}

/** The client's counters, with a count of its namespace's locks. Without the store, those of the client remain. @internal */
export async function gatherStatistics(client: Client): Promise<Statistics> {
  const { counters } = client
  const gauges = Object.create(null) as Gauges
  for (const { scope } of client.leases) gauges[`lock.${describeScope(scope)}.holder`] = client.runner.id
  const counts = await countLocks(client, gauges).catch(notCounted)
  for (const [key, heldMs] of counters.holdDurations) {
    const scopeKey = splitStoreKey(key)?.scopeKey ?? key
    gauges[`lock.${describeScope({ key: scopeKey })}.hold_duration_ms`] = heldMs
  }
  const acquisitions = counters.of('acquired')
  const { leases } = client
  return {
    counters: {
      'lock.acquired': acquisitions,
      'lock.released': counters.of('released'),
      'lock.heartbeat_renewed': counters.of('renewed'),
      'lock.heartbeat_failed': counters.of('renewal-failed'),
      'lock.takeover_detected': counters.of('takeover'),
      'lock.stale_detected': counters.of('stale'),
      'lock.contention': counters.of('contention'),
      'lock.jeopardy': counters.of('jeopardy'),
      'lock.leaving': counters.of('leaving'),
      'lock.lost': counters.of('lost'),
      'lock.passed_on': counters.of('passed-on'),
      'lock.failed': counters.of('failed'),
    },
    gauges,
    ...counts,
    myLocks: leases.length,
    activeHeartbeats: leases.filter((lease) => lease.heartbeating).length,
    totalAcquisitions: acquisitions,
    totalConflicts: counters.of('contention'),
    failedAcquisitions: counters.of('failed'),
    staleLocksClaimed: counters.staleClaimed,
    averageAcquisitionTimeMs: acquisitions === 0 ? 0 : counters.acquisitionMs / acquisitions,
  }
}
