/** How a claim stays alive: GitHub notes when its comment was last edited. */
import type { ClaimStatus } from '../../../core/contract/driver.ts'
import { claimCommentText } from '../protocol/claim-comment.ts'
import type { Deadline } from '../api/deadline.ts'
import { timeAt, type GithubContext } from './context.ts'
import { endedBy, expire, leave, endMissing } from './leaving.ts'
import type { LocalClaim } from './local-claims.ts'
import { hasExpired, verdictOn } from '../protocol/verdict.ts'

/** Edits the claim's comment: GitHub notes when. Gives how the claim stands if that is not where it was. */
export async function heartbeat(
  context: GithubContext,
  localClaim: LocalClaim,
  ttlMs: number,
  deadline: Deadline,
): Promise<ClaimStatus | undefined> {
  const gone = await statusAfterSilence(context, localClaim, deadline)
  if (gone !== undefined) return gone
  const editedAt = context.environment.now()
  const before = { updatedAt: localClaim.updatedAt, ttlMs: localClaim.record.ttlMs }
  const record = { ...localClaim.record, ttlMs, heartbeatAt: timeAt(context), renewals: localClaim.record.renewals + 1 }
  const edited = await context.api.editComment(localClaim.comment, claimCommentText(record), deadline)
  if (edited === undefined) {
    // Of a repository that is not shown any more every comment is gone: this fails then.
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

/** After a lease without an edit from here: whether the claim is over, or another thread of ours has kept it. */
async function statusAfterSilence(
  context: GithubContext,
  localClaim: LocalClaim,
  deadline: Deadline,
): Promise<ClaimStatus | undefined> {
  if (context.environment.now() - localClaim.editedAt < localClaim.record.ttlMs) return undefined
  const read = await context.reader.read(localClaim.issue, localClaim.key, deadline)
  const verdict = verdictOn(read, localClaim, context.settleMs)
  if (verdict.state === 'ended') return leave(context, localClaim, endedBy(verdict.claim.end), read.thread)
  // Whether it is there at all the edit will tell.
  if (verdict.state !== 'missing') localClaim.updatedAt = verdict.claim.updatedAt
  return undefined
}
