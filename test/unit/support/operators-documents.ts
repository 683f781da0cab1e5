import type { OperatorsClaim, OperatorsLock, WaitDocument } from '../../../src/dashboard/documents.ts'

type ReadClaim = OperatorsClaim & { readonly readAt: number }
type ReadLock = OperatorsLock & { readonly holders: readonly ReadClaim[]; readonly waiters: readonly ReadClaim[] }

/** A claim as the page has read it. */
export function heldClaim(wish: Partial<OperatorsClaim> = {}): ReadClaim {
  const at = '2026-01-01T00:00:00.000Z'
  return {
    runner: { id: 'runner', host: 'here', pid: 1, metadata: undefined },
    mode: 'exclusive',
    limit: undefined,
    range: undefined,
    priority: 0,
    fence: 2,
    enteredAt: at,
    acquiredAt: at,
    lastHeartbeat: at,
    renewalCount: 0,
    expiresAt: at,
    ttlMs: 30_000,
    remainingMs: 30_000,
    expired: false,
    leaving: undefined,
    sinceMs: 0,
    lastHeartbeatMs: 0,
    readAt: 0,
    ...wish,
  }
}

/** A lock by name, as the page has read it. */
export function lockOf(
  scope: string,
  holders: readonly ReadClaim[] = [],
  waiters: readonly ReadClaim[] = [],
): ReadLock {
  const [held, waiting] = [holders.length, waiters.length]
  return { namespace: 'default', scope, key: `default/named:${scope}`, held, waiting, holders, waiters }
}

/** An edge of the wait-for graph. */
export function waitOf(from: string, to: string, wish: Partial<WaitDocument> = {}): WaitDocument {
  const scope = wish.scope ?? `${from}-${to}`
  const key = `default/named:${scope}`
  return { from, to, because: 'holds', namespace: 'default', scope, key, sinceMs: 0, circular: false, ...wish }
}
