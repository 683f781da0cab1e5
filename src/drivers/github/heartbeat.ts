/** How a claim stays alive: GitHub notes when its comment was last edited. */
import type { ClaimStatus } from '../../core/contract/driver.ts'
import { claimText } from './claim-comment.ts'
import type { Deadline } from './deadline.ts'
import { timeAt, type GithubContext } from './context.ts'
import { endedBy, expire, leave, vanish } from './leaving.ts'
import type { LocalClaim } from './local-claims.ts'
import { isOver, verdictOn } from './verdict.ts'

/** Edits the claim's comment: GitHub notes when. Gives how the claim stands if that is not where it was. */
export async function heartbeat(
  context: GithubContext,
  localClaim: LocalClaim,
  ttlMs: number,
  deadline: Deadline,
): Promise<ClaimStatus | undefined> {
  const gone = await missedSince(context, localClaim, deadline)
  if (gone !== undefined) return gone
  const editedAt = context.environment.now()
  const before = { updatedAt: localClaim.updatedAt, ttlMs: localClaim.record.ttlMs }
  const record = { ...localClaim.record, ttlMs, heartbeatAt: timeAt(context), renewals: localClaim.record.renewals + 1 }
  const edited = await context.api.editComment(localClaim.comment, claimText(record), deadline)
  if (edited === undefined) {
    // Of a repository that is not shown any more every comment is gone: this fails then.
    return vanish(context, localClaim, (await context.reader.look(localClaim.issue, localClaim.key, deadline)).thread)
  }
  const { updatedAt } = edited.comment
  Object.assign(localClaim, { record, updatedAt, editedAt })
  if (!isOver(before, updatedAt)) return undefined
  return expire(
    context,
    localClaim,
    (await context.reader.look(localClaim.issue, localClaim.key, deadline)).thread,
    deadline,
  )
}

/** After a lease without an edit from here: whether the claim is over, or another thread of ours has kept it. */
async function missedSince(
  context: GithubContext,
  localClaim: LocalClaim,
  deadline: Deadline,
): Promise<ClaimStatus | undefined> {
  if (context.environment.now() - localClaim.editedAt < localClaim.record.ttlMs) return undefined
  const look = await context.reader.look(localClaim.issue, localClaim.key, deadline)
  const verdict = verdictOn(look, localClaim, context.settleMs)
  if (verdict.state === 'ended') return leave(context, localClaim, endedBy(verdict.claim.end), look.thread)
  // Whether it is there at all the edit will tell.
  if (verdict.state !== 'missing') localClaim.updatedAt = verdict.claim.updatedAt
  return undefined
}
