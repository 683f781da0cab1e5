/** How a claim ends, and what its owner is told. */
import type { ClaimStatus, AbsentStatus } from '../../../core/contract/driver.ts'
import { claimCommentText } from '../protocol/claim-comment.ts'
import type { Deadline } from '../api/deadline.ts'
import { timeAt, type GithubContext } from './context.ts'
import { isNotFound, unavailable } from '../api/faults.ts'
import type { LocalClaim } from './local-claims.ts'
import { expiredResult, type ClaimEnd, type Thread } from '../protocol/thread.ts'

export const unknownClaim: AbsentStatus = { state: 'absent', reason: 'unknown' }
const deleted: AbsentStatus = { state: 'absent', reason: 'evicted', detail: 'its comment was deleted' }
const disowned: AbsentStatus = { state: 'absent', reason: 'evicted', detail: 'its account may not write any more' }

/** What the owner of an ended claim is told. */
export function endedBy(end: ClaimEnd | undefined): AbsentStatus {
  if (end?.how === 'taken over') {
    if (end.cause === 'expired') return { state: 'absent', reason: 'expired' }
    // Who only waited has lost its place and nothing else: it may queue anew.
    return end.held ? { state: 'absent', reason: 'evicted', detail: end.reason } : unknownClaim
  }
  const expired = end?.how === 'completed' && end.result === expiredResult
  return { state: 'absent', reason: expired ? 'expired' : 'unknown' }
}

/** Turns the claim's comment into a record of what it was. False: the comment is not there any more. */
export async function complete(
  context: GithubContext,
  localClaim: LocalClaim,
  result: string,
  deadline: Deadline,
): Promise<boolean> {
  const at = timeAt(context)
  const { heldSince } = localClaim.record
  const durationMs = heldSince === undefined ? 0 : Math.max(0, Math.round(at - heldSince))
  const record = { ...localClaim.record, completion: { result, durationMs, at } }
  return (await context.api.editComment(localClaim.comment, claimCommentText(record), deadline)) !== undefined
}

/** The owner came too late: it says so itself, which spares the next one the waiting. */
export async function expire(
  context: GithubContext,
  localClaim: LocalClaim,
  thread: Thread,
  deadline: Deadline,
): Promise<ClaimStatus> {
  await complete(context, localClaim, expiredResult, deadline)
  return leave(context, localClaim, { state: 'absent', reason: 'expired' }, thread)
}

/** Its comment is not there, or counts no more. */
export function endMissing(context: GithubContext, localClaim: LocalClaim, thread: Thread): ClaimStatus {
  if (!context.trustedAuthors.isRefused(localClaim.author)) return leave(context, localClaim, deleted, thread)
  if (localClaim.held) return leave(context, localClaim, disowned, thread)
  throw unavailable('The token may not write to the repository any more, so its claims do not count.', 'auth')
}

/** Takes back a claim that would not wait: it never was more than a question. */
export async function refuse(
  context: GithubContext,
  localClaim: LocalClaim,
  thread: Thread,
  deadline: Deadline,
): Promise<ClaimStatus> {
  await context.api.deleteComment(localClaim.comment, deadline).catch((error: unknown) => {
    if (!isNotFound(error)) throw error
  })
  return leave(context, localClaim, { state: 'absent', reason: 'refused' }, thread)
}

/** The claim is over: forgets it, and takes down its signs, except for what is also the next one's. */
export function leave(
  context: GithubContext,
  localClaim: LocalClaim,
  status: AbsentStatus,
  thread: Thread,
): ClaimStatus {
  context.results.delete(localClaim.comment)
  if (localClaim.held) {
    const next = thread.claims.find(({ comment, end }) => comment !== localClaim.comment && end === undefined)
    context.mirror.drop(localClaim.issue, localClaim.id)
    context.markers.takeDown(localClaim.issue, localClaim.author, next?.author)
  }
  return context.localClaims.end(localClaim.id, status)
}
