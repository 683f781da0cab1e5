import type { Deadlock, WaitingClaim } from './wait-for-graph.ts'

type Next = (claim: WaitingClaim) => readonly WaitingClaim[]

/** The knots among claims that are stuck. Those that only wait behind a knot are in none. */
export function circles(stuck: readonly WaitingClaim[], next: Next): readonly Deadlock[] {
  const left = new Map(stuck.map((claim) => [claim, next(claim)]))
  peel(left)
  const reach = new Map([...left.keys()].map((claim) => [claim, reachableFrom(claim, left)]))
  const knots: Deadlock[] = []
  const seen = new Set<WaitingClaim>()
  for (const [claim, reached] of reach) {
    if (seen.has(claim) || !reached.has(claim)) continue
    const members = [...reached].filter((other) => reach.get(other)?.has(claim) === true)
    for (const member of members) seen.add(member)
    // Without a party a claim is not watched, so nobody would tell it.
    const candidates = members.filter(({ parties }) => parties.length > 0).toSorted(givesWayFirst)
    const [victim] = candidates
    if (victim !== undefined) knots.push({ candidates, cycle: shortestCircle(victim, left) })
  }
  return knots
}

/** Takes away, again and again, those for whom nobody waits: a circle has none of them. */
function peel(left: Map<WaitingClaim, readonly WaitingClaim[]>): void {
  const awaited = new Map<WaitingClaim, number>()
  for (const others of left.values()) for (const other of others) awaited.set(other, (awaited.get(other) ?? 0) + 1)
  const loose = [...left.keys()].filter((claim) => !awaited.has(claim))
  for (let claim = loose.pop(); claim !== undefined; claim = loose.pop()) {
    for (const other of left.get(claim) ?? []) {
      const count = (awaited.get(other) ?? 0) - 1
      awaited.set(other, count)
      if (count === 0) loose.push(other)
    }
    left.delete(claim)
  }
}

function reachableFrom(
  from: WaitingClaim,
  edges: ReadonlyMap<WaitingClaim, readonly WaitingClaim[]>,
): ReadonlySet<WaitingClaim> {
  const reached = new Set<WaitingClaim>()
  const ahead = [...(edges.get(from) ?? [])]
  for (let claim = ahead.pop(); claim !== undefined; claim = ahead.pop()) {
    if (reached.has(claim)) continue
    reached.add(claim)
    ahead.push(...(edges.get(claim) ?? []))
  }
  return reached
}

function shortestCircle(
  from: WaitingClaim,
  edges: ReadonlyMap<WaitingClaim, readonly WaitingClaim[]>,
): readonly WaitingClaim[] {
  const cameFrom = new Map<WaitingClaim, WaitingClaim>()
  const ahead = [from]
  for (let claim = ahead.shift(); claim !== undefined; claim = ahead.shift()) {
    for (const other of edges.get(claim) ?? []) {
      if (other === from) return wayBack(claim, from, cameFrom)
      if (cameFrom.has(other)) continue
      cameFrom.set(other, claim)
      ahead.push(other)
    }
  }
  return [from]
}

function wayBack(
  last: WaitingClaim,
  from: WaitingClaim,
  cameFrom: ReadonlyMap<WaitingClaim, WaitingClaim>,
): readonly WaitingClaim[] {
  const way = [last]
  for (let claim = last; claim !== from;) {
    claim = cameFrom.get(claim) as WaitingClaim
    way.unshift(claim)
  }
  return way
}

/** Negative: `one` gives way before `other`. The last two only make it the same for everybody. */
function givesWayFirst(one: WaitingClaim, other: WaitingClaim): number {
  return (
    one.claim.priority - other.claim.priority ||
    other.claim.enteredAt - one.claim.enteredAt ||
    compareText(one.key, other.key) ||
    compareText(one.parties.join(' '), other.parties.join(' '))
  )
}

function compareText(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0
}
