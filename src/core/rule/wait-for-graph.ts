/**
 * Who waits for whom, from what a store lists, and who waits for ever.
 *
 * A waiting claim needs every exclusive holder in its way to leave, every waiter in its way to go first, and of a
 * semaphore's holders only so many as make room. A held claim is stuck while a claim of its owner is; what has no owner
 * is taken to be getting on. Claims that can get on are struck out until none is left that can: the rest is deadlocked.
 */
import { excludes, holdsUpEverybody, overlaps, standsInTheWay } from './conflict.ts'
import type { KeyPage, ListedClaim, ListedKey } from '../contract/driver.ts'
import { holdingOwnerOf, ownersOf } from '../contract/owner-name.ts'

/** A claim that waits, and for whom. */
export interface WaitingClaim {
  readonly key: string
  readonly claim: ListedClaim
  /** On whose behalf it waits. */
  readonly owners: readonly string[]
  /** Waiters that must go first. */
  readonly behind: WaitingClaim[]
  /** Owners that must all let go. */
  readonly holdingOwners: readonly string[]
  /** Owners of the permits in use, and how many permits there are: one must let go. */
  readonly permits: { readonly holdingOwners: readonly string[]; readonly limit: number } | undefined
}

/** Claims that all wait for each other, directly or through others. */
export interface Deadlock {
  /** Lowest priority first, then the youngest: the order in which they are to give way, the same for everybody. */
  readonly candidates: readonly WaitingClaim[]
  /** The shortest cycle through the first candidate. Each waits for the next, and the last for the first. */
  readonly cycle: readonly WaitingClaim[]
}

/** What stands in both of two readings stood all the time between them: a listing page by page is no single moment. */
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

/** The waiters of one key, with those in their way, seen at the store's time `now`. */
export function waitingClaims({ key, claims }: ListedKey, now: number): readonly WaitingClaim[] {
  const holders = claims.filter((claim) => claim.state === 'held' && staysUntilReleased(claim, now))
  const found: WaitingClaim[] = []
  // Whoever waits behind one that holds up everybody waits for those before it through that one.
  let ahead: WaitingClaim[] = []
  for (const claim of claims) {
    if (claim.state !== 'waiting' || now >= claim.expiresAt) continue
    const owners = ownersOf(claim.runner.owner).map((name) => ownerKeyOf(claim, name))
    const waiting: WaitingClaim = {
      key,
      claim,
      owners,
      behind: ahead.filter((other) => standsInTheWay(other.claim, claim)),
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

/** Whether a claim of one owner may be about to take the place of another. A store that does not say is not accused. */
function isUpgradeOf(claim: ListedClaim, holder: ListedClaim): boolean {
  return holder.mode === 'shared' && claim.mode === 'exclusive' && claim.converting !== false
}

/** A holder whose lease is over, or will not be extended, goes by itself. */
function staysUntilReleased(claim: ListedClaim, now: number): boolean {
  return now < claim.expiresAt && claim.leaving === undefined
}

function permitsFor(claim: ListedClaim, holders: readonly ListedClaim[]): WaitingClaim['permits'] {
  const { limit } = claim
  if (limit === undefined) return undefined
  const sharing = holders.filter((holder) => holder.mode === 'shared' && overlaps(holder, claim))
  return { holdingOwners: sharing.flatMap((holder) => holderOf(holder) ?? []), limit }
}

/** Whose a held claim is, if that is known: a detached one may be in anybody's hands. */
function holderOf(claim: ListedClaim): string | undefined {
  const holdingOwner = holdingOwnerOf(claim.runner.owner)
  return holdingOwner === undefined || claim.detached === true ? undefined : ownerKeyOf(claim, holdingOwner)
}

/** An owner's name means something only inside its client. */
function ownerKeyOf(claim: ListedClaim, name: string): string {
  return `${claim.runner.client} ${name}`
}

/** What a claim still waits for: so many waiters and owners, and so many in use of its permits. */
interface Need {
  blockers: number
  permits: number
}

/** Claims that have not been found to get on, and the owners that stand still because of them. */
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

  /** The stuck claims, and owners that stand still, without which this one could get on. */
  waitsFor({ behind, holdingOwners, permits }: WaitingClaim): readonly WaitEdge[] {
    const status = holdingOwners.filter((owner) => this.#standsStill(owner))
    const users = permits?.holdingOwners.filter((owner) => this.#standsStill(owner)) ?? []
    if (permits !== undefined && users.length >= permits.limit) status.push(...users)
    const theirs = [...new Set(status)].flatMap((owner) => this.#byOwner.get(owner) ?? [])
    return [...behind.filter((other) => this.claims.has(other)), ...theirs]
  }

  #standsStill(owner: string): boolean {
    return (this.#byOwner.get(owner)?.size ?? 0) > 0
  }

  /** Takes out whatever can get on, and whatever can then, until nothing can. */
  #strikeOutAll(waiting: readonly WaitingClaim[]): void {
    const needs = new Map<WaitingClaim, Need>()
    /** Who needs a claim to go first, or an owner to let go, and for which of the two counts. */
    const awaiting = new Map<WaitingClaim | string, (readonly [WaitingClaim, keyof Need])[]>()
    for (const claim of waiting) {
      const need: Need = { blockers: 0, permits: 0 }
      needs.set(claim, need)
      const note = (what: WaitingClaim | string, count: keyof Need): void => {
        need[count] += 1
        const others = awaiting.get(what)
        if (others === undefined) awaiting.set(what, [[claim, count]])
        else others.push([claim, count])
      }
      for (const other of claim.behind) note(other, 'blockers')
      for (const owner of claim.holdingOwners) if (this.#standsStill(owner)) note(owner, 'blockers')
      for (const owner of claim.permits?.holdingOwners ?? []) if (this.#standsStill(owner)) note(owner, 'permits')
    }
    const canGetOn = (claim: WaitingClaim): boolean => {
      const { blockers, permits } = needs.get(claim) as Need
      return blockers === 0 && (claim.permits === undefined || permits < claim.permits.limit)
    }
    const free = waiting.filter(canGetOn)
    for (let claim = free.pop(); claim !== undefined; claim = free.pop()) {
      for (const gone of this.#strikeOut(claim)) {
        for (const [other, count] of awaiting.get(gone) ?? []) {
          ;(needs.get(other) as Need)[count] -= 1
          if (canGetOn(other)) free.push(other)
        }
      }
    }
  }

  /** The claim, unless it was out, and the owners that stand still no more. */
  #strikeOut(claim: WaitingClaim): readonly (WaitingClaim | string)[] {
    if (!this.claims.delete(claim)) return []
    // Once each: a claim may name an owner twice.
    const owners = [...new Set(claim.owners)]
    for (const owner of owners) this.#byOwner.get(owner)?.delete(claim)
    return [claim, ...owners.filter((owner) => !this.#standsStill(owner))]
  }
}

/** A claim, or an owner by its claims that are stuck: so many may wait for so many that pairs of them are not counted. */
export type WaitEdge = WaitingClaim | ReadonlySet<WaitingClaim>

type Next = (claim: WaitingClaim) => readonly WaitEdge[]

/** The strongly connected components among claims that are stuck. Those that only wait behind a component are in none. */
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
    // Without an owner a claim is not watched, so nobody would tell it.
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

/**
 * Of each node that is reached from `starts`: all those that it reaches and that reach it, itself among them. Tarjan's
 * algorithm, in time with the number of ways, and without recursion, as ways may be long.
 */
export function stronglyConnected<Node>(
  starts: Iterable<Node>,
  next: (node: Node) => Iterable<Node>,
): ReadonlyMap<Node, readonly Node[]> {
  const found = new Map<Node, readonly Node[]>()
  /** By the order in which they were reached. */
  const places = new Map<Node, number>()
  /** The first place that is known to be reached from a node, among those whose knot is not known yet. */
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
      const { done, value: other } = rest.next()
      if (done !== true) {
        if (!places.has(other)) way.push(visit(other))
        else if (!found.has(other)) lower(node, places.get(other))
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
