import type { ClaimRecord } from '../../core/rule/claim-record.ts'

/** By how much the clock of this process may run slower than the store's, and what rounding adds. */
const driftRate = 0.05
const roundingMs = 1

/**
 * The store's time when documents were read, which took `tookMs` on the clock of this process. A document that was written after
 * the clock was read has times ahead of `now`, as all documents have after a clock was set back, and the rule would cut leases
 * that others rely on. So a time that is no further ahead than the reading took counts as the store's time. @internal
 */
export function timeAtReading(now: number, tookMs: number, claims: readonly Partial<ClaimRecord>[]): number {
  const latest = now + Math.ceil(tookMs * (1 + driftRate)) + roundingMs
  let writtenAt = now
  for (const claim of claims) {
    // What is damaged is for the rule's reader to refuse.
    const { lastHeartbeat = 0, acquiredAt = 0, expiresAt = 0, ttlMs = 0 } = claim ?? {}
    for (const time of [lastHeartbeat, acquiredAt, expiresAt - ttlMs]) {
      if (time > writtenAt && time <= latest) writtenAt = time
    }
  }
  return writtenAt
}
