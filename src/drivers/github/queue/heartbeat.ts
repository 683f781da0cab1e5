/** Renewing a claim: each edit of its comment updates GitHub's timestamp. */
import type { ClaimStatus } from '../../../core/contract/driver.ts'
import { claimCommentText } from '../protocol/claim-comment.ts'
import type { Deadline } from '../api/deadline.ts'
import { timeAt, type GithubContext } from './context.ts'
import { endedBy, expire, leave, endMissing } from './leaving.ts'
import { knownOf, lastingMs, type LocalClaim } from './local-claims.ts'
import { hasExpired, verdictOn } from '../protocol/verdict.ts'

/** Renews a claim by an edit of its comment. Resolves to the status of the claim only if it has ended. */
export async function heartbeat(
  context: GithubContext,
  localClaim: LocalClaim,
  askedMs: number,
  deadline: Deadline,
): Promise<ClaimStatus | undefined> {
  const gone = await statusAfterSilence(context, localClaim, deadline)
  if (gone !== undefined) return gone
  const editedAt = context.environment.now()
  const ttlMs = lastingMs(localClaim, askedMs, editedAt)
  const before = { updatedAt: localClaim.updatedAt, ttlMs: localClaim.record.ttlMs }
  const record = { ...localClaim.record, ttlMs, heartbeatAt: timeAt(context), renewals: localClaim.record.renewals + 1 }
  const edited = await context.api.editComment(localClaim.comment, claimCommentText(record), deadline)
  if (edited === undefined) {
    // If we can no longer see the repository, every comment seems deleted: this read then throws.
    return endMissing(
      context,
      localClaim,
      (await context.reader.read(localClaim.issue, localClaim.key, deadline)).thread,
    )
  }
  const { updatedAt } = edited.comment
  Object.assign(localClaim, { record, updatedAt, editedAt })
  if (!hasExpired(before, updatedAt)) return undefined
  return expire(
    context,
    localClaim,
    (await context.reader.read(localClaim.issue, localClaim.key, deadline)).thread,
    deadline,
  )
}

/** If this process made no edit for a whole ttl: whether the claim has ended, or another process has renewed it. */
async function statusAfterSilence(
  context: GithubContext,
  localClaim: LocalClaim,
  deadline: Deadline,
): Promise<ClaimStatus | undefined> {
  if (context.environment.now() - localClaim.editedAt < localClaim.record.ttlMs) return undefined
  const read = await context.reader.read(localClaim.issue, localClaim.key, deadline)
  const verdict = verdictOn(read, knownOf(localClaim), context.settleMs)
  if (verdict.state === 'ended') return leave(context, localClaim, endedBy(verdict.claim.end), read.thread)
  // If the reading does not show the claim, the following edit tells whether its comment exists.
  if (verdict.state !== 'missing') localClaim.updatedAt = verdict.claim.updatedAt
  return undefined
}
