import type { Request, ClaimStatus } from '../../core/driver.ts'
import type { Assembly } from './assembly.ts'
import { mergedAbsence, releaseVerdict, type Answers } from './verdict.ts'

/** How long to try to release a claim of which this driver does not know the ttl. */
const foreignTtlMs = 30_000

/** Releases on all nodes. Answered when a majority has; the others are seen to in the background. */
export function releaseOn(assembly: Assembly, request: Extract<Request, { op: 'release' }>): Promise<ClaimStatus> {
  const { clearing, grants } = assembly
  const { key, id } = request
  const grant = grants.get(request)
  grants.delete(request)
  const ttlMs = grant?.ttlMs ?? foreignTtlMs
  return assembly.ask<ClaimStatus>({
    withinMs: assembly.answerWithinMs(ttlMs),
    ask: (node, answered) => clearing.release(node, key, id, ttlMs + (grant?.claim.graceMs ?? 0), answered),
    judge: (answers) => releaseOutcome(assembly, answers),
  })
}

/** What the answers to a release, or to an eviction, come to. */
export function releaseOutcome(assembly: Assembly, answers: Answers): ClaimStatus | undefined {
  const verdict = releaseVerdict(answers, assembly.majority)
  if (verdict === undefined) return undefined
  return verdict === 'unknown' ? assembly.unknown(answers) : mergedAbsence(answers)
}
