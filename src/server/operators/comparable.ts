import { holdsUpEverybody } from '../../core/conflict.ts'
import type { ListedClaim, ListedKey } from '../../core/driver.ts'
import type { Look } from './reading.ts'

/** Pairs of claims that are compared for one look: more would take seconds, in which nobody is served. */
const pairsMax = 100_000

/**
 * The look with as many waiters as can be compared with those in their way. Where there are too many, the ends of the
 * most expensive queues are left out: a thousand readers and a thousand writers of one lock hide nobody else's cycle.
 */
export function comparable(look: Look): Look {
  const costs = new Map(look.keys.map((listed) => [listed, queueWithin(listed, Infinity).pairs]))
  let left = pairsMax
  if ([...costs.values()].reduce((sum, pairs) => sum + pairs, 0) <= left) return look
  const kept = new Map<ListedKey, ListedKey>()
  const cheapFirst = look.keys.toSorted((one, other) => (costs.get(one) ?? 0) - (costs.get(other) ?? 0))
  for (const listed of cheapFirst) {
    const { pairs, claims } = queueWithin(listed, left)
    left -= pairs
    kept.set(listed, { key: listed.key, claims })
  }
  return { ...look, keys: look.keys.map((listed) => kept.get(listed) ?? listed), truncated: true }
}

/** The holders of a key, and the first of its waiters: so many as make no more pairs than there may be. */
function queueWithin({ claims }: ListedKey, pairsLeft: number): { pairs: number; claims: readonly ListedClaim[] } {
  const holders = claims.filter(({ state }) => state === 'held')
  const kept: ListedClaim[] = [...holders]
  let pairs = 0
  // As `waitingClaims` goes about it: those behind one that holds up everybody are compared with that one only.
  let ahead = 0
  for (const claim of claims) {
    if (claim.state === 'held') continue
    const more = holders.length + ahead
    if (pairs + more > pairsLeft) break
    pairs += more
    ahead = holdsUpEverybody(claim) ? 1 : ahead + 1
    kept.push(claim)
  }
  return { pairs, claims: kept }
}
