import type { KeyPage, ListedClaim, ListQuery } from '../../core/contract/driver.ts'
import { pageOf } from '../kit/paging.ts'
import type { Node } from './node.ts'
import { majorityOf } from './verdict.ts'

/** What each node that answered has listed. */
export type Pages = ReadonlyMap<Node, KeyPage>

/** A held claim as one node lists it. */
export interface Copy {
  readonly node: Node
  readonly claim: ListedClaim
  /** The node's own clock when it listed the claim. */
  readonly now: number
}

/** One page of the claims that a majority holds, in the order of keys, with the times of one clock. */
export function mergedPage(pages: Pages, query: ListQuery, now: number, nodeCount: number): KeyPage {
  const majority = majorityOf(nodeCount)
  const silent = nodeCount - pages.size
  const copiesByKey = copiesOf(pages)
  return pageOf([...copiesByKey.keys()].toSorted(), query, now, (key) => ({
    claims: copiesByClaim(copiesByKey.get(key) ?? [], query.known)
      .filter((copies) => mayBeAgreed(copies, silent, majority))
      .flatMap((copies) => mergedClaim(copies, now, majority) ?? []),
  }))
}

/** What the nodes list for each key. */
function copiesOf(pages: Pages): Map<string, Copy[]> {
  const copiesByKey = new Map<string, Copy[]>()
  for (const [node, page] of pages) {
    for (const { key, claims } of page.keys) {
      const copies = claims.map((claim) => ({ node, claim, now: page.now }))
      copiesByKey.set(key, [...(copiesByKey.get(key) ?? []), ...copies])
    }
  }
  return copiesByKey
}

/** The held claims of one key on every node, each with its copies. */
export function copiesOfKey(pages: Pages, key: string): Copy[][] {
  const copies: Copy[] = []
  for (const [node, page] of pages) {
    const claims = page.keys.find((entry) => entry.key === key)?.claims ?? []
    for (const claim of claims) copies.push({ node, claim, now: page.now })
  }
  return copiesByClaim(copies, undefined)
}

/**
 * The fence a claim was granted with. A majority has it; a node that granted its copy late may have another. If too few nodes
 * answered to show a majority, it is the most common fence, and of several the highest.
 */
export function fenceOf(copies: readonly Copy[]): number {
  const fences = copies.map(({ claim }) => claim.fence)
  const votes = (wanted: number): number => fences.filter((fence) => fence === wanted).length
  return fences.toSorted((a, b) => votes(b) - votes(a) || b - a)[0] ?? 0
}

/**
 * Whether a majority may have the claim with one fence. If not, the claim is being granted or has just been released, and its
 * fence is not decided yet or can no longer be seen.
 */
function mayBeAgreed(copies: readonly Copy[], silent: number, majority: number): boolean {
  const fence = fenceOf(copies)
  return copies.filter(({ claim }) => claim.fence === fence).length + silent >= majority
}

/**
 * Whether the fence of some claim may be about to be lifted: a majority has one fence, and a node a higher one. If that node
 * answered too late, the owner was given the lower fence, and the difference stays.
 */
export function mayBeLifted(pages: Pages, { known }: ListQuery, majority: number): boolean {
  return [...copiesOf(pages).values()].some((all) =>
    copiesByClaim(all, known).some((copies) => {
      const fence = fenceOf(copies)
      const agreed = copies.filter(({ claim }) => claim.fence === fence).length >= majority
      return agreed && copies.some(({ claim }) => claim.fence > fence)
    }),
  )
}

/** The claim as listed by the node whose expiry ends its majority; undefined if no majority holds it. */
function mergedClaim(copies: readonly Copy[], now: number, majority: number): ListedClaim | undefined {
  const last = copies.toSorted((a, b) => remainingMs(b) - remainingMs(a))[majority - 1]
  if (last === undefined) return undefined
  const { claim } = last
  const moved = (time: number): number => time - last.now + now
  // A node counts a fence written back to it as a renewal, and a node that lags has counted fewer.
  const mostFirst = copies.map((copy) => copy.claim.renewalCount).toSorted((a, b) => b - a)
  return {
    ...claim,
    fence: fenceOf(copies),
    renewalCount: mostFirst[majority - 1] ?? 0,
    enteredAt: moved(claim.enteredAt),
    acquiredAt: moved(claim.acquiredAt),
    lastHeartbeat: moved(claim.lastHeartbeat),
    expiresAt: moved(claim.expiresAt),
  }
}

/**
 * The copies of each claim, by id. A node that is a server hides all ids but the known one: then claims are matched by their
 * runner, as a client has one claim to a key at a time.
 */
function copiesByClaim(all: readonly Copy[], known: string | undefined): Copy[][] {
  const copies = all.filter(({ claim }) => claim.state === 'held')
  const isHidden = copies.some(({ claim }) => claim.id === '')
  const byName = new Map<string, Copy[]>()
  for (const copy of copies) {
    const { id, runner } = copy.claim
    const name = isHidden && id !== known ? JSON.stringify([runner.client, runner.incarnation, runner.owner]) : id
    byName.set(name, [...(byName.get(name) ?? []), copy])
  }
  return [...byName.values()]
}

function remainingMs({ claim, now }: Copy): number {
  return claim.expiresAt - now
}
