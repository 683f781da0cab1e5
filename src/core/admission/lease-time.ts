import type { ClaimRecord } from '../claim-record.ts'
import type { Succession } from '../driver.ts'

/** The record as it counts now: a dead process's lease ends, one with more than its ttl left is cut to its ttl. */
export function judge(record: ClaimRecord, now: number): ClaimRecord {
  if (record.died === true && record.expiresAt > now) return { ...record, expiresAt: now }
  if (record.expiresAt - now <= record.ttlMs) return record
  // The clock was set back: nothing that has happened can lie in the future.
  const acquiredAt = Math.min(record.acquiredAt, now)
  const end = now + record.ttlMs
  return {
    ...record,
    expiresAt: record.state === 'held' ? capByMaxHold(end, acquiredAt, record.claim.maxHoldMs) : end,
    acquiredAt,
    lastHeartbeat: Math.min(record.lastHeartbeat, now),
  }
}

/** Why a holder's time is over. */
export function howEnded(record: ClaimRecord): Succession['how'] {
  if (record.died === true) return 'died'
  const { maxHoldMs } = record.claim
  return maxHoldMs !== undefined && record.expiresAt >= record.acquiredAt + maxHoldMs ? 'max-hold' : 'expired'
}

/** The end of a lease, no later than its longest hold allows. */
export function capByMaxHold(end: number, acquiredAt: number, maxHoldMs: number | undefined): number {
  return maxHoldMs === undefined ? end : Math.min(end, acquiredAt + maxHoldMs)
}
