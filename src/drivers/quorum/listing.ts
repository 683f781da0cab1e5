import type { KeyPage, ListedClaim, ListQuery } from '../../core/contract/driver.ts'
import { pageOf } from '../kit/paging.ts'
import { majorityOf } from './majority.ts'
import type { Node } from './node.ts'

/** What each node that answered lists. */
export type Pages = ReadonlyMap<Node, KeyPage>

/** A held claim as one node has it. */
export interface Copy {
  readonly node: Node
  readonly claim: ListedClaim
  /** The node's own clock when it listed the claim. */
  readonly now: number
}

/** What a majority of so many nodes holds, told in one clock and in the order of keys. */
export function mergedPage(pages: Pages, query: ListQuery, now: number, nodeCount: number): KeyPage {
  const majority = majorityOf(nodeCount)
  const silent = nodeCount - pages.size
  const copiesByKey = copiesOf(pages)
  return pageOf([...copiesByKey.keys()].toSorted(), query, now, (key) =>
    copiesByClaim(copiesByKey.get(key) ?? [], query.known)
      .filter((copies) => mayBeAgreed(copies, silent, majority))
      .flatMap((copies) => mergedClaim(copies, now, majority) ?? []),
  )
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
    copies.push(...claims.map((claim) => ({ node, claim, now: page.now })))
  }
  return copiesByClaim(copies, undefined)
}

/**
 * The fence a claim was granted with. A majority has it; nodes that gave their copy late may have another. Where so
 * many nodes are missing that it cannot be told, the most common one, and of those the highest.
 */
export function fenceOf(copies: readonly Copy[]): number {
  const fences = copies.map(({ claim }) => claim.fence)
  const votes = (fence: number): number => fences.filter((other) => other === fence).length
  return fences.toSorted((one, other) => votes(other) - votes(one) || other - one)[0] ?? 0
}

/**
 * Whether a majority may have the claim with one fence. Without that it is about to be granted, or has just been let go,
 * and which fence it has is not decided or no longer to be seen.
 */
function mayBeAgreed(copies: readonly Copy[], silent: number, majority: number): boolean {
  const fence = fenceOf(copies)
  return copies.filter(({ claim }) => claim.fence === fence).length + silent >= majority
}

/**
 * Whether some claim may be about to get another fence than the one a majority has: a node gave it a higher one. If its
 * owner heard of that node too late, it was told the lower one, and the difference stays.
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

/** The claim as the node has it with which its majority ends; undefined if fewer hold it. */
function mergedClaim(copies: readonly Copy[], now: number, majority: number): ListedClaim | undefined {
  const last = copies.toSorted((one, other) => remainingMs(other) - remainingMs(one))[majority - 1]
  if (last === undefined) return undefined
  const { claim } = last
  const moved = (time: number): number => time - last.now + now
  // A node counts a fence written back to it as a renewal, and one that lags has counted fewer.
  const mostFirst = copies.map((copy) => copy.claim.renewalCount).toSorted((one, other) => other - one)
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
 * Copies of the same claim, put together by id. A node that is a server hides ids, but for the one that is known: then
 * a claim is told by its runner, as a client has one claim to a key at a time.
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
