/** Ending a claim, and the status that its owner gets. */
import type { AbsentStatus, ClaimStatus } from '../../../core/contract/driver.ts'
import { claimCommentText } from '../protocol/claim-comment.ts'
import type { Deadline } from '../api/deadline.ts'
import { timeAt, type GithubContext } from './context.ts'
import { isNotFound, unavailable } from '../api/faults.ts'
import { fenceOfLocal, type LocalClaim } from './local-claims.ts'
import { expiredResult, type ClaimEnd, type Thread } from '../protocol/thread.ts'
import type { IssueReading } from '../protocol/verdict.ts'

/** The status of a claim that nobody knows. */
export const unknownClaim: AbsentStatus = { state: 'absent', reason: 'unknown' }
const deleted: AbsentStatus = { state: 'absent', reason: 'evicted', detail: 'its comment was deleted' }
const disowned: AbsentStatus = { state: 'absent', reason: 'evicted', detail: 'its account may not write any more' }

/** The status for the owner of an ended claim. */
export function endedBy(end: ClaimEnd | undefined): AbsentStatus {
  if (end?.how === 'taken over') {
    if (end.cause === 'expired') return { state: 'absent', reason: 'expired' }
    // A waiter has lost only its place: it may queue again.
    return end.held ? { state: 'absent', reason: 'evicted', detail: end.reason } : unknownClaim
  }
  const expired = end?.how === 'completed' && end.result === expiredResult
  return { state: 'absent', reason: expired ? 'expired' : 'unknown' }
}

/** Writes the completion into the claim's comment. False: the comment no longer exists. */
export async function complete(
  context: GithubContext,
  localClaim: Pick<LocalClaim, 'comment' | 'record'>,
  result: string,
  deadline: Deadline,
): Promise<boolean> {
  const at = timeAt(context)
  const { heldSince } = localClaim.record
  const durationMs = heldSince === undefined ? 0 : Math.max(0, Math.round(at - heldSince))
  const record = { ...localClaim.record, completion: { result, durationMs, at } }
  return (await context.api.editComment(localClaim.comment, claimCommentText(record), deadline)) !== undefined
}

/** Completes an expired claim on behalf of its owner, so that the next claim need not wait for a takeover. */
export async function expire(
  context: GithubContext,
  localClaim: LocalClaim,
  thread: Thread,
  deadline: Deadline,
): Promise<ClaimStatus> {
  await complete(context, localClaim, expiredResult, deadline)
  return leave(context, localClaim, { state: 'absent', reason: 'expired' }, thread)
}

/**
 * Before a conversion is granted: notes until when the lease that it replaces may be trusted, and has that be renewed no more. Resolves
 * to the replaced claim, if this process renews it.
 */
export function convertReplaced(
  { localClaims, environment }: GithubContext,
  localClaim: LocalClaim,
  { thread }: IssueReading,
): LocalClaim | undefined {
  const { replaces } = localClaim.record
  if (replaces === undefined) return undefined
  const known = localClaims.find(replaces.claim)
  if (known !== undefined) {
    known.isConverted = true
    localClaim.replacedUntil = Math.max(known.editedAt + known.record.ttlMs, known.replacedUntil)
    return known
  }
  // Another process renews it, maybe since this reading.
  const shown = thread.claims.find(({ record }) => record?.id === replaces.claim)
  localClaim.replacedUntil = environment.now() + (shown?.ttlMs ?? 0)
  return undefined
}

/**
 * Ends the claim that a conversion replaces, once that is granted. If the grant is not written yet, the replaced claim stays in the way
 * of others: its owner may trust it until it hears of the grant. The conversion's next edit ends it.
 */
export async function endReplaced(
  context: GithubContext,
  { record: { replaces } }: LocalClaim,
  read: IssueReading,
  isWritten: boolean,
  deadline: Deadline,
): Promise<void> {
  if (replaces === undefined) return
  const { localClaims } = context
  const known = localClaims.find(replaces.claim)
  const shown = read.thread.claims.find(({ record }) => record?.id === replaces.claim)
  const old = known ?? (shown?.record === undefined ? undefined : { comment: shown.comment, record: shown.record })
  localClaims.end(replaces.claim, unknownClaim)
  if (old !== undefined && isWritten) await complete(context, old, 'converted', deadline).catch(() => {})
}

/** Ends a claim whose comment was deleted, or whose author may no longer write. */
export function endMissing(context: GithubContext, localClaim: LocalClaim, thread: Thread): ClaimStatus {
  if (!context.trustedAuthors.isRefused(localClaim.author)) return leave(context, localClaim, deleted, thread)
  if (localClaim.held) return leave(context, localClaim, disowned, thread)
  throw unavailable('The token may not write to the repository any more, so its claims do not count.', 'auth')
}

/** Deletes the comment of a claim that does not wait and was not granted. */
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

/** Ends the claim here, and removes its markers, except those that the next holder needs. */
export function leave(
  context: GithubContext,
  localClaim: LocalClaim,
  status: AbsentStatus,
  thread: Thread,
): ClaimStatus {
  context.results.delete(fenceOfLocal(localClaim))
  if (localClaim.held) {
    const next = thread.claims.find(({ comment, end }) => comment !== localClaim.comment && end === undefined)
    context.mirror.drop(localClaim.issue, localClaim.id)
    context.markers.takeDown(localClaim.issue, localClaim.author, next?.author)
  }
  return context.localClaims.end(localClaim.id, status)
}
