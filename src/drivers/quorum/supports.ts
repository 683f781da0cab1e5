import type { EvictRule, Supports } from '../../core/contract/driver.ts'
import { durationMaxOf, fenceFloorMaxOf } from '../../core/contract/limits.ts'

/**
 * Rules by which each node can evict by itself. `lower-priority` needs a queue, and nodes that decide alone would
 * queue in different orders.
 */
const evictRules: readonly EvictRule[] = ['stale', 'same-runner', 'all']

/**
 * Fences are written back to nodes as floors, so those of a quorum must stay below the highest floor its nodes take. Above whatever
 * floor a caller asks for, this many more fences fit.
 */
const fencesToFollow = 2 ** 50

/** The default ttl of a store that names none. */
const leaseDefaultMs = 30_000

/** What a quorum of these nodes can do: exclusive locks, on terms that all of them know. */
export function supportsOf(all: readonly Supports[], votesAfterMs: number): Supports {
  // A node that restarted empty votes again after `votesAfter`: by then every lease it forgot must be over.
  const forgottenAfterMs = votesAfterMs === 0 ? Infinity : votesAfterMs
  const ttlMaxMs = Math.min(forgottenAfterMs, ...all.map((supports) => supports.ttlMaxMs))
  const ttlAndGraceMaxMs = Math.min(forgottenAfterMs, ...all.map((supports) => supports.ttlAndGraceMaxMs ?? Infinity))
  const ttlDefaultMs = Math.max(...all.map((supports) => supports.ttlDefaultMs ?? leaseDefaultMs))
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
    durationMaxMs: Math.min(...all.map(durationMaxOf)),
    ...(ttlAndGraceMaxMs !== Infinity && { ttlAndGraceMaxMs }),
    fenceFloorMax: Math.max(0, Math.min(...all.map(fenceFloorMaxOf)) - fencesToFollow),
    ttlDefaultMs: Math.min(ttlDefaultMs, ttlMaxMs),
    ...(all.some(({ renewals }) => renewals === false) && { renewals: false }),
  }
}
