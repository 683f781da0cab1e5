/**
 * Which claims wait for which, from what a store lists, and which of them are deadlocked.
 *
 * A waiting claim needs every exclusive holder in its way to leave, every waiter in its way to go first, and of a
 * semaphore's holders only enough to make room. A held claim is stuck while a waiting claim of its owner is; a held claim
 * without an owner is taken to end by itself. Claims that can proceed are struck out until none can: the rest is
 * deadlocked.
 */
import { excludes, holdsUpEverybody, overlaps, standsInTheWay } from './conflict.ts'
import type { KeyPage, ListedClaim, ListedKey } from '../contract/driver.ts'
import { holdingOwnerOf, ownersOf } from '../contract/owner-name.ts'

/** A waiting claim, and what it waits for. */
export interface WaitingClaim {
  readonly key: string
  readonly claim: ListedClaim
  /** The owners on whose behalf the claim waits. */
  readonly owners: readonly string[]
  /** Waiters that must go first. */
  readonly behind: WaitingClaim[]
  /** Owners that must all let go. */
  readonly holdingOwners: readonly string[]
  /** The owners of the permits in use, and how many permits there are: one owner must let go. */
  readonly permits: { readonly holdingOwners: readonly string[]; readonly limit: number } | undefined
}

/** Claims that all wait for each other, directly or through others. */
export interface Deadlock {
  /** Lowest priority first, then the youngest: the order in which they are to give way, the same in every process. */
  readonly candidates: readonly WaitingClaim[]
  /** The shortest cycle through the first candidate. Each waits for the next, and the last for the first. */
  readonly cycle: readonly WaitingClaim[]
}

/** The claims of two readings that did not change in between: pages of one listing are read at different moments. */
export function claimsInBoth(first: readonly ListedKey[], second: readonly ListedKey[]): readonly ListedKey[] {
  const before = new Set(first.flatMap(({ key, claims }) => claims.map((claim) => signature(key, claim))))
  return second.map(({ key, claims }) => ({
    key,
    claims: claims.filter((claim) => before.has(signature(key, claim))),
  }))
}

function signature(key: string, { id, state, fence, enteredAt, runner }: ListedClaim): string {
  return JSON.stringify([key, id, state, fence, enteredAt, runner.client, runner.owner ?? ''])
}

/** Every cycle of claims that wait for each other, seen at the store's time `now`. */
export function findDeadlocks({ now, keys }: Pick<KeyPage, 'now' | 'keys'>): readonly Deadlock[] {
  const stuck = new Stuck(keys.flatMap((listed) => waitingClaims(listed, now)))
  return cycles([...stuck.claims], (claim) => stuck.waitsFor(claim))
}

/** The waiters of one key, with the claims in their way, seen at the store's time `now`. */
export function waitingClaims({ key, claims }: ListedKey, now: number): readonly WaitingClaim[] {
  const holders = claims.filter((claim) => claim.state === 'held' && staysUntilReleased(claim, now))
  const found: WaitingClaim[] = []
  // A claim behind one that holds up everybody waits for earlier claims only through that one.
  let ahead: WaitingClaim[] = []
  for (const claim of claims) {
    if (claim.state !== 'waiting' || now >= claim.expiresAt) continue
    const owners = ownersOf(claim.runner.owner).map((name) => ownerKeyOf(claim, name))
    const waiting: WaitingClaim = {
      key,
      claim,
      owners,
      behind: ahead.filter((earlier) => standsInTheWay(earlier.claim, claim)),
      holdingOwners: holders.flatMap((holder) => {
        const holdingOwner = holderOf(holder)
        if (holdingOwner === undefined || !excludes(holder, claim)) return []
        return owners.includes(holdingOwner) && isUpgradeOf(claim, holder) ? [] : [holdingOwner]
      }),
      permits: permitsFor(claim, holders),
    }
    found.push(waiting)
    if (holdsUpEverybody(claim)) ahead = []
    ahead.push(waiting)
  }
  return found
}

/** Whether a waiting claim may be about to replace this holder of its owner. If the store does not say, it may be. */
function isUpgradeOf(claim: ListedClaim, holder: ListedClaim): boolean {
  return holder.mode === 'shared' && claim.mode === 'exclusive' && claim.converting !== false
}

/** Whether a holder blocks until it is released: not if its lease is over, or will not be extended. */
function staysUntilReleased(claim: ListedClaim, now: number): boolean {
  return now < claim.expiresAt && claim.leaving === undefined
}

function permitsFor(claim: ListedClaim, holders: readonly ListedClaim[]): WaitingClaim['permits'] {
  const { limit } = claim
  if (limit === undefined) return undefined
  const sharing = holders.filter((holder) => holder.mode === 'shared' && overlaps(holder, claim))
  return { holdingOwners: sharing.flatMap((holder) => holderOf(holder) ?? []), limit }
}

/** The owner of a held claim, if it is known: a detached claim may have been handed to any process. */
function holderOf(claim: ListedClaim): string | undefined {
  const holdingOwner = holdingOwnerOf(claim.runner.owner)
  return holdingOwner === undefined || claim.detached === true ? undefined : ownerKeyOf(claim, holdingOwner)
}

/** An owner's name is unique only inside its client. */
function ownerKeyOf(claim: ListedClaim, name: string): string {
  return `${claim.runner.client} ${name}`
}

/** How many waiters and owners a claim still waits for, and how many of its permits are in use. */
interface Need {
  blockers: number
  permits: number
}

/** The claims that have not been struck out, and the owners that stand still because of them. */
class Stuck {
  readonly claims: Set<WaitingClaim>
  readonly #byOwner = new Map<string, Set<WaitingClaim>>()

  constructor(waiting: readonly WaitingClaim[]) {
    this.claims = new Set(waiting)
    for (const claim of waiting) {
      for (const owner of claim.owners) {
        let claims = this.#byOwner.get(owner)
        if (claims === undefined) this.#byOwner.set(owner, (claims = new Set()))
        claims.add(claim)
      }
    }
    this.#strikeOutAll(waiting)
  }

  /** The stuck claims, and the owners that stand still, for which this claim waits. */
  waitsFor({ behind, holdingOwners, permits }: WaitingClaim): readonly WaitEdge[] {
    const stuckOwners = holdingOwners.filter((owner) => this.#standsStill(owner))
    const users = permits?.holdingOwners.filter((owner) => this.#standsStill(owner)) ?? []
    if (permits !== undefined && users.length >= permits.limit) for (const user of users) stuckOwners.push(user)
    const ownersClaims = [...new Set(stuckOwners)].flatMap((owner) => this.#byOwner.get(owner) ?? [])
    return [...behind.filter((waiting) => this.claims.has(waiting)), ...ownersClaims]
  }

  #standsStill(owner: string): boolean {
    return (this.#byOwner.get(owner)?.size ?? 0) > 0
  }

  /** Strikes out the claims that can proceed, then those that can proceed without these, until none can. */
  #strikeOutAll(waiting: readonly WaitingClaim[]): void {
    const needs = new Map<WaitingClaim, Need>()
    /** By waiter that must go first, or owner that must let go: the claims that need it, and the count it is part of. */
    const awaiting = new Map<WaitingClaim | string, (readonly [WaitingClaim, keyof Need])[]>()
    for (const claim of waiting) {
      const need: Need = { blockers: 0, permits: 0 }
      needs.set(claim, need)
      const note = (blocker: WaitingClaim | string, count: keyof Need): void => {
        need[count] += 1
        const entries = awaiting.get(blocker)
        if (entries === undefined) awaiting.set(blocker, [[claim, count]])
        else entries.push([claim, count])
      }
      for (const waiter of claim.behind) note(waiter, 'blockers')
      for (const owner of claim.holdingOwners) if (this.#standsStill(owner)) note(owner, 'blockers')
      for (const owner of claim.permits?.holdingOwners ?? []) if (this.#standsStill(owner)) note(owner, 'permits')
    }
    const canProceed = (claim: WaitingClaim): boolean => {
      const { blockers, permits } = needs.get(claim) as Need
      return blockers === 0 && (claim.permits === undefined || permits < claim.permits.limit)
    }
    const free = waiting.filter(canProceed)
    for (let claim = free.pop(); claim !== undefined; claim = free.pop()) {
      for (const gone of this.#strikeOut(claim)) {
        for (const [waiter, count] of awaiting.get(gone) ?? []) {
          ;(needs.get(waiter) as Need)[count] -= 1
          if (canProceed(waiter)) free.push(waiter)
        }
      }
    }
  }

  /** Takes a claim out. Returns it, unless it was out already, and the owners that no longer stand still. */
  #strikeOut(claim: WaitingClaim): readonly (WaitingClaim | string)[] {
    if (!this.claims.delete(claim)) return []
    // A claim may name an owner twice: count it once.
    const owners = [...new Set(claim.owners)]
    for (const owner of owners) this.#byOwner.get(owner)?.delete(claim)
    return [claim, ...owners.filter((owner) => !this.#standsStill(owner))]
  }
}

/**
 * Where an edge of the graph leads: to a claim, or to an owner, as the set of its stuck claims. Through sets, the edges
 * of many claims that wait for many are not multiplied.
 */
export type WaitEdge = WaitingClaim | ReadonlySet<WaitingClaim>

type Next = (claim: WaitingClaim) => readonly WaitEdge[]

/** The strongly connected components among stuck claims. Claims that only wait behind a component are in none. */
export function cycles(stuck: readonly WaitingClaim[], next: Next): readonly Deadlock[] {
  const memo = new Map<WaitingClaim, readonly WaitEdge[]>()
  const waysFrom: Next = (claim) => {
    let ways = memo.get(claim)
    if (ways === undefined) memo.set(claim, (ways = next(claim)))
    return ways
  }
  const componentOf = stronglyConnected<WaitEdge>(stuck, (node) => (isOwner(node) ? node : waysFrom(node)))
  const deadlocks: Deadlock[] = []
  const seen = new Set<readonly WaitEdge[]>()
  for (const claim of stuck) {
    const component = componentOf.get(claim) ?? []
    if (component.length < 2 || seen.has(component)) continue
    seen.add(component)
    // A claim without an owner is not watched: it would never learn that it is to give way.
    const watched = component.filter((node): node is WaitingClaim => !isOwner(node) && node.owners.length > 0)
    const candidates = watched.toSorted(givesWayFirst)
    const [victim] = candidates
    if (victim !== undefined) deadlocks.push({ candidates, cycle: shortestCycle(victim, waysFrom) })
  }
  return deadlocks
}

function isOwner(node: WaitEdge): node is ReadonlySet<WaitingClaim> {
  return node instanceof Set
}

function shortestCycle(from: WaitingClaim, next: Next): readonly WaitingClaim[] {
  const cameFrom = new Map<WaitingClaim, WaitingClaim>()
  const owners = new Set<WaitEdge>()
  const ahead = [from]
  // The loop goes on over what it adds to the list.
  for (const claim of ahead) {
    for (const node of next(claim)) {
      // The claims of an owner that was reached before have been reached on a way as short.
      if (owners.has(node)) continue
      if (isOwner(node)) owners.add(node)
      for (const reached of isOwner(node) ? node : [node]) {
        if (reached === from) return wayBack(claim, from, cameFrom)
        if (cameFrom.has(reached)) continue
        cameFrom.set(reached, claim)
        ahead.push(reached)
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

/** Negative: the first gives way before the second. Key and owners only make the order the same in every process. */
function givesWayFirst(first: WaitingClaim, second: WaitingClaim): number {
  return (
    first.claim.priority - second.claim.priority ||
    second.claim.enteredAt - first.claim.enteredAt ||
    compareText(first.key, second.key) ||
    compareText(first.owners.join(' '), second.owners.join(' '))
  )
}

function compareText(first: string, second: string): number {
  return first < second ? -1 : first > second ? 1 : 0
}

/**
 * The strongly connected component of each node that is reached from `starts`: the nodes that it reaches and that reach
 * it, itself among them. Tarjan's algorithm: linear in the number of edges, and without recursion, as paths may be long.
 */
export function stronglyConnected<Node>(
  starts: Iterable<Node>,
  next: (node: Node) => Iterable<Node>,
): ReadonlyMap<Node, readonly Node[]> {
  const found = new Map<Node, readonly Node[]>()
  /** The order in which nodes were reached. */
  const places = new Map<Node, number>()
  /** The first place known to be reached from a node, among the nodes whose component is not complete yet. */
  const lowest = new Map<Node, number>()
  const open: Node[] = []
  const visit = (node: Node): { node: Node; rest: Iterator<Node> } => {
    lowest.set(node, places.size)
    places.set(node, places.size)
    open.push(node)
    return { node, rest: next(node)[Symbol.iterator]() }
  }
  const lower = (node: Node, place: number | undefined): void => {
    if (place !== undefined && place < (lowest.get(node) ?? place)) lowest.set(node, place)
  }
  for (const start of starts) {
    const way = places.has(start) ? [] : [visit(start)]
    for (let step = way.at(-1); step !== undefined; step = way.at(-1)) {
      const { node, rest } = step
      const { done, value: reached } = rest.next()
      if (done !== true) {
        if (!places.has(reached)) way.push(visit(reached))
        else if (!found.has(reached)) lower(node, places.get(reached))
        continue
      }
      way.pop()
      const before = way.at(-1)
      if (before !== undefined) lower(before.node, lowest.get(node))
      if (lowest.get(node) !== places.get(node)) continue
      const members = open.splice(open.lastIndexOf(node))
      for (const member of members) found.set(member, members)
    }
  }
  return found
}
