import type { Request, ClaimStatus } from '../../core/contract/driver.ts'
import type { Quorum } from './quorum.ts'
import { mergedAbsence, releaseVerdict, type Answers } from './verdict.ts'
import { copiesOfKey, fenceOf } from './listing.ts'

/** How long to try to release a claim of which this driver does not know the ttl. */
const foreignTtlMs = 30_000

/** Releases on all nodes. Settles when a majority has answered; the others are released in the background. */
export function releaseOn(quorum: Quorum, request: Extract<Request, { op: 'release' }>): Promise<ClaimStatus> {
  const { cleanup, grants } = quorum
  const { key, id } = request
  const grant = grants.get(request)
  grants.delete(request)
  const ttlMs = grant?.ttlMs ?? foreignTtlMs
  return quorum.ask<ClaimStatus>({
    withinMs: quorum.answerWithinMs(ttlMs),
    ask: (node, answered) => cleanup.release(node, key, id, ttlMs + (grant?.claim.graceMs ?? 0), answered),
    judge: (answers) => releaseOutcome(quorum, answers),
  })
}

/** What the answers to a release, or to an eviction, come to. */
function releaseOutcome(quorum: Quorum, answers: Answers): ClaimStatus | undefined {
  const verdict = releaseVerdict(answers, quorum.majority)
  if (verdict === undefined) return undefined
  return verdict === 'unknown' ? quorum.unknown(answers) : mergedAbsence(answers)
}

const evictWithinMs = 1000

/**
 * Ends the holder with this fence on every node. A node that granted the claim late may have given it another fence, so the nodes are
 * listed first. Evicted once a majority is known to be without the claim: its holder can then renew on no majority.
 */
export async function evictOn(quorum: Quorum, request: Extract<Request, { op: 'evict' }>): Promise<ClaimStatus> {
  const { key, fence, reason } = request
  let pages
  try {
    pages = await quorum.read({ key }, evictWithinMs)
  } catch (error) {
    return { state: 'unknown', error }
  }
  const copies = copiesOfKey(pages, key).find((candidates) => fenceOf(candidates) === fence) ?? []
  const fences = new Map(copies.map(({ node, claim }) => [node, claim.fence]))
  return quorum.ask<ClaimStatus>({
    withinMs: evictWithinMs,
    ask: (node, answered) => node.ask({ op: 'evict', key, fence: fences.get(node) ?? fence, reason }, answered),
    judge: (answers) => {
      const outcome = releaseOutcome(quorum, answers)
      // A node that never had the claim gives no reason: prefer the answer of a node that evicted it.
      const evicted = answers.find((answer) => answer?.state === 'absent' && answer.reason === 'evicted')
      return outcome?.state === 'absent' ? (evicted ?? outcome) : outcome
    },
  })
}
