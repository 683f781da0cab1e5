import type { ClaimInfo, LockInfo } from '../index.ts'

/** A lock as `--json` shows it. Fields are only ever added. No claim ids: whoever knows one could release it. */
export function lockDocument({ scope, key, holders, waiters }: LockInfo): object {
  return { name: scope, key, holders: holders.map(claimDocument), waiters: waiters.map(claimDocument) }
}

function claimDocument(claim: ClaimInfo): object {
  const { id, host, pid, metadata } = claim.runner
  return {
    runner: { id, host, pid, metadata },
    mode: claim.mode,
    limit: claim.limit,
    range: claim.range,
    priority: claim.priority,
    fence: claim.fence,
    enteredAt: claim.enteredAt,
    acquiredAt: claim.acquiredAt,
    lastHeartbeat: claim.lastHeartbeat,
    renewalCount: claim.renewalCount,
    expiresAt: claim.expiresAt,
    ttlMs: claim.ttlMs,
    remainingMs: Math.round(claim.remainingMs),
    expired: claim.expired,
    leaving: claim.leaving,
  }
}
