import type { Claim, EvictRule, Supports } from '../../core/driver.ts'
import { formatDuration } from '../../core/time/duration.ts'
import { LeaseholdError } from '../../core/errors.ts'

/**
 * Rules by which each node can take a lock by itself. `lower-priority` needs a queue, and nodes that decide alone would
 * queue in different orders.
 */
const evictRules: readonly EvictRule[] = ['stale', 'same-runner', 'all']

/** The ttl of a store that names none, as everywhere. */
const leaseDefaultMs = 30_000

/** What a quorum of these nodes can do: exclusive locks, on terms that all of them know. */
export function supportsOf(all: readonly Supports[], votesAfterMs: number): Supports {
  // A node that restarted empty votes again after `votesAfter`: by then every lease it forgot must be over.
  const ttlMaxMs = Math.min(votesAfterMs === 0 ? Infinity : votesAfterMs, ...all.map((one) => one.ttlMaxMs))
  const ttlDefaultMs = Math.max(...all.map((one) => one.ttlDefaultMs ?? leaseDefaultMs))
  return {
    shared: false,
    limit: false,
    range: false,
    queue: false,
    push: false,
    priority: false,
    convert: false,
    evict: evictRules.filter((rule) => all.every(({ evict }) => evict.includes(rule))),
    grace: all.every(({ grace }) => grace),
    maxHold: all.every(({ maxHold }) => maxHold),
    fence: all.every(({ fence }) => fence),
    ttlMinMs: Math.max(...all.map(({ ttlMinMs }) => ttlMinMs)),
    ttlMaxMs,
    ttlDefaultMs: Math.min(ttlDefaultMs, ttlMaxMs),
    ...(all.some(({ renewals }) => renewals === false) && { renewals: false }),
  }
}

/** Why a claim cannot be made at all; undefined if it can. */
export function refusalOf(claim: Claim, supports: Supports, votesAfterMs: number): LeaseholdError | undefined {
  if (claim.mode === 'shared') return unsupported('shared locks and semaphores')
  if (claim.range !== undefined) return unsupported('byte ranges')
  if (claim.replaces !== undefined) return unsupported('conversions')
  if (claim.evict !== undefined && !supports.evict.includes(claim.evict)) return unsupported(`evict: ${claim.evict}`)
  if (claim.graceMs > 0 && !supports.grace) return unsupported('a grace')
  if (claim.maxHoldMs !== undefined && !supports.maxHold) return unsupported('a longest hold')
  if (votesAfterMs === 0 || claim.ttlMs + claim.graceMs <= votesAfterMs) return undefined
  return new LeaseholdError(
    'INVALID',
    `ttl and grace together are ${formatDuration(claim.ttlMs + claim.graceMs)}, longer than votesAfter, ` +
      `${formatDuration(votesAfterMs)}: a node that restarted empty would vote before they are over.`,
  )
}

export function unsupported(what: string): LeaseholdError {
  return new LeaseholdError('UNSUPPORTED', `A quorum cannot do ${what}. docs/stores/quorum.md says why.`)
}
