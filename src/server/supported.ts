import type { Claim, Request, Supports } from '../core/driver.ts'
import { LeaseholdError } from '../core/errors.ts'
import { wrong } from './fields.ts'

/** Refuses what the store behind cannot do. A client of ours asks for nothing of that; others get to know. */
export function checkSupported(requests: readonly Request[], supports: Supports): void {
  for (const [index, request] of requests.entries()) {
    const where = `requests[${index}]`
    if (request.op === 'claim') checkClaim(request.claim, supports, where)
    if (request.op === 'renew') checkTtl(request.ttlMs, supports, where)
    if (request.op === 'evict') checkEvictable(supports, where)
  }
}

/** Refuses an eviction where none can be carried out, rather than to answer that nobody held the lock. */
export function checkEvictable({ evict }: Supports, where: string): void {
  if (evict.length === 0) throw unsupported(where, 'evictions')
}

function checkClaim(claim: Claim, supports: Supports, where: string): void {
  checkTtl(claim.ttlMs, supports, where)
  const missing =
    (claim.mode === 'shared' && !supports.shared && 'shared claims') ||
    (claim.limit !== undefined && !supports.limit && 'limits') ||
    (claim.range !== undefined && !supports.range && 'ranges') ||
    (claim.replaces !== undefined && !supports.convert && 'conversions') ||
    (claim.priority !== 0 && !supports.priority && 'priorities') ||
    (claim.graceMs > 0 && !supports.grace && 'a grace') ||
    (claim.maxHoldMs !== undefined && !supports.maxHold && 'a longest hold') ||
    (claim.evict !== undefined && !supports.evict.includes(claim.evict) && `evict: '${claim.evict}'`)
  if (missing) throw unsupported(where, missing)
}

function unsupported(where: string, what: string): LeaseholdError {
  return new LeaseholdError('UNSUPPORTED', `${where}: the store behind this server cannot do ${what}.`)
}

function checkTtl(ttlMs: number, { ttlMinMs, ttlMaxMs }: Supports, where: string): void {
  if (ttlMs >= ttlMinMs && ttlMs <= ttlMaxMs) return
  throw wrong(`${where}: ttlMs`, `must be from ${ttlMinMs} to ${ttlMaxMs} for this store`)
}
