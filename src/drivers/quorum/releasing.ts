import type { Request, ClaimStatus } from '../../core/driver.ts'
import type { Quorum } from './quorum.ts'
import { mergedAbsence, releaseVerdict, type Answers } from './verdict.ts'

/** How long to try to release a claim of which this driver does not know the ttl. */
const foreignTtlMs = 30_000

/** Releases on all nodes. Answered when a majority has; the others are seen to in the background. */
export function releaseOn(quorum: Quorum, request: Extract<Request, { op: 'release' }>): Promise<ClaimStatus> {
  const { clearing, grants } = quorum
  const { key, id } = request
  const grant = grants.get(request)
  grants.delete(request)
  const ttlMs = grant?.ttlMs ?? foreignTtlMs
  return quorum.ask<ClaimStatus>({
    withinMs: quorum.answerWithinMs(ttlMs),
    ask: (node, answered) => clearing.release(node, key, id, ttlMs + (grant?.claim.graceMs ?? 0), answered),
    judge: (answers) => releaseOutcome(quorum, answers),
  })
}

/** What the answers to a release, or to an eviction, come to. */
export function releaseOutcome(quorum: Quorum, answers: Answers): ClaimStatus | undefined {
  const verdict = releaseVerdict(answers, quorum.majority)
  if (verdict === undefined) return undefined
  return verdict === 'unknown' ? quorum.unknown(answers) : mergedAbsence(answers)
}
