import type { Request, ClaimStatus } from '../../core/driver.ts'
import type { Quorum } from './quorum.ts'
import { copiesOfKey, fenceOf } from './listing.ts'
import { releaseOutcome } from './releasing.ts'

const withinMs = 1000

/**
 * Ends the holder with this fence on every node. A node that was late with the claim may know it by another fence, so
 * they are asked first. Evicted once a majority is known to be without it: its holder can then renew on none.
 */
export async function evictOn(quorum: Quorum, request: Extract<Request, { op: 'evict' }>): Promise<ClaimStatus> {
  const { key, fence, reason } = request
  let pages
  try {
    pages = await quorum.read({ key }, withinMs)
  } catch (error) {
    return { state: 'unknown', error }
  }
  const copies = copiesOfKey(pages, key).find((candidates) => fenceOf(candidates) === fence) ?? []
  const fences = new Map(copies.map(({ node, claim }) => [node, claim.fence]))
  return quorum.ask<ClaimStatus>({
    withinMs,
    ask: (node, answered) => node.ask({ op: 'evict', key, fence: fences.get(node) ?? fence, reason }, answered),
    judge: (answers) => {
      const outcome = releaseOutcome(quorum, answers)
      // Nodes that never had the claim have nothing to tell.
      const evicted = answers.find((answer) => answer?.state === 'absent' && answer.reason === 'evicted')
      return outcome?.state === 'absent' ? (evicted ?? outcome) : outcome
    },
  })
}
