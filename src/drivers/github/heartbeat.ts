/** How a claim stays alive: GitHub notes when its comment was last edited. */
import type { ClaimStatus } from '../../core/driver.ts'
import { claimText } from './claim-comment.ts'
import type { Deadline } from './deadline.ts'
import { timeAt, type GithubContext } from './context.ts'
import { endedBy, expire, leave, vanish } from './leaving.ts'
import type { Seat } from './seats.ts'
import { isOver, verdictOn } from './verdict.ts'

/** Edits the claim's comment: GitHub notes when. Gives how the claim stands if that is not where it was. */
export async function heartbeat(
  context: GithubContext,
  seat: Seat,
  ttlMs: number,
  deadline: Deadline,
): Promise<ClaimStatus | undefined> {
  const gone = await missedSince(context, seat, deadline)
  if (gone !== undefined) return gone
  const editedAt = context.environment.now()
  const before = { updatedAt: seat.updatedAt, ttlMs: seat.record.ttlMs }
  const record = { ...seat.record, ttlMs, heartbeatAt: timeAt(context), renewals: seat.record.renewals + 1 }
  const edited = await context.api.editComment(seat.comment, claimText(record), deadline)
  if (edited === undefined) {
    // Of a repository that is not shown any more every comment is gone: this fails then.
    return vanish(context, seat, (await context.reader.look(seat.issue, seat.key, deadline)).thread)
  }
  const { updatedAt } = edited.comment
  Object.assign(seat, { record, updatedAt, editedAt })
  if (!isOver(before, updatedAt)) return undefined
  return expire(context, seat, (await context.reader.look(seat.issue, seat.key, deadline)).thread, deadline)
}

/** After a lease without an edit from here: whether the claim is over, or another thread of ours has kept it. */
async function missedSince(context: GithubContext, seat: Seat, deadline: Deadline): Promise<ClaimStatus | undefined> {
  if (context.environment.now() - seat.editedAt < seat.record.ttlMs) return undefined
  const look = await context.reader.look(seat.issue, seat.key, deadline)
  const verdict = verdictOn(look, seat, context.settleMs)
  if (verdict.state === 'ended') return leave(context, seat, endedBy(verdict.claim.end), look.thread)
  // Whether it is there at all the edit will tell.
  if (verdict.state !== 'missing') seat.updatedAt = verdict.claim.updatedAt
  return undefined
}
