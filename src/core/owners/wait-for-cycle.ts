import { stronglyConnected } from './strongly-connected.ts'
import type { Deadlock, WaitingClaim } from './wait-for-graph.ts'

/** A claim, or an owner by its claims that are stuck: so many may wait for so many that pairs of them are not counted. */
export type Awaited = WaitingClaim | ReadonlySet<WaitingClaim>

type Next = (claim: WaitingClaim) => readonly Awaited[]

/** The strongly connected components among claims that are stuck. Those that only wait behind a component are in none. */
export function cycles(stuck: readonly WaitingClaim[], next: Next): readonly Deadlock[] {
  const memo = new Map<WaitingClaim, readonly Awaited[]>()
  const waysFrom: Next = (claim) => {
    let ways = memo.get(claim)
    if (ways === undefined) memo.set(claim, (ways = next(claim)))
    return ways
  }
  const componentOf = stronglyConnected<Awaited>(stuck, (node) => (isOwner(node) ? node : waysFrom(node)))
  const deadlocks: Deadlock[] = []
  const seen = new Set<readonly Awaited[]>()
  for (const claim of stuck) {
    const component = componentOf.get(claim) ?? []
    if (component.length < 2 || seen.has(component)) continue
    seen.add(component)
    // Without an owner a claim is not watched, so nobody would tell it.
    const watched = component.filter((node): node is WaitingClaim => !isOwner(node) && node.owners.length > 0)
    const candidates = watched.toSorted(givesWayFirst)
    const [victim] = candidates
    if (victim !== undefined) deadlocks.push({ candidates, cycle: shortestCycle(victim, waysFrom) })
  }
  return deadlocks
}

function isOwner(node: Awaited): node is ReadonlySet<WaitingClaim> {
  return node instanceof Set
}

function shortestCycle(from: WaitingClaim, next: Next): readonly WaitingClaim[] {
  const cameFrom = new Map<WaitingClaim, WaitingClaim>()
  const owners = new Set<Awaited>()
  const ahead = [from]
  // The list grows as it is gone through.
  for (const claim of ahead) {
    for (const node of next(claim)) {
      // Whoever was reached through an owner before was reached on a way as short.
      if (owners.has(node)) continue
      if (isOwner(node)) owners.add(node)
      for (const other of isOwner(node) ? node : [node]) {
        if (other === from) return wayBack(claim, from, cameFrom)
        if (cameFrom.has(other)) continue
        cameFrom.set(other, claim)
        ahead.push(other)
      }
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
    way.push(claim)
  }
  return way.toReversed()
}

/** Negative: `one` gives way before `other`. The last two only make it the same for everybody. */
function givesWayFirst(one: WaitingClaim, other: WaitingClaim): number {
  return (
    one.claim.priority - other.claim.priority ||
    other.claim.enteredAt - one.claim.enteredAt ||
    compareText(one.key, other.key) ||
    compareText(one.owners.join(' '), other.owners.join(' '))
  )
}

function compareText(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0
}
