/** Finding out where a claim stands, by as many looks at its issue as it takes to be sure. */
import type { ClaimStatus } from '../../core/driver.ts'
import { claimText } from './claim-comment.ts'
import { roundingMs } from './comment.ts'
import type { Deadline } from './deadline.ts'
import { timeAt, type GithubContext } from './context.ts'
import { settleDuplicates } from './entering.ts'
import { heartbeat } from './heartbeat.ts'
import { endedBy, expire, leave, refuse, vanish } from './leaving.ts'
import type { Seat } from './seats.ts'
import { takeOver, takerOf, turnOut } from './taking-over.ts'
import { ousted, successionOf } from './thread.ts'
import { headOf, settlesInMs, verdictOn, type Look, type Verdict } from './verdict.ts'

/** Where a claim stands. */
export async function stand(
  context: GithubContext,
  seat: Seat,
  mayWait: boolean,
  deadline: Deadline,
): Promise<ClaimStatus> {
  const { settleMs } = context
  for (;;) {
    const look = await context.reader.look(seat.issue, seat.key, deadline)
    await settleDuplicates(context, seat, look, deadline)
    const verdict = verdictOn(look, seat, settleMs)
    switch (verdict.state) {
      case 'missing': {
        const gone = mustShow(context, seat, look) ? await goneFrom(context, seat, look, deadline) : undefined
        if (gone !== undefined) return gone
        await deadline.pause(settleMs)
        continue
      }
      case 'ended':
        return leave(context, seat, endedBy(verdict.claim.end), look.thread)
      case 'expired':
        return expire(context, seat, look.thread, deadline)
      case 'behind': {
        if (seat.held) return stillHeld(context, seat, look)
        const status = await wait(context, seat, look, verdict, mayWait, deadline)
        if (status !== undefined) return status
        continue
      }
      case 'first': {
        if (seat.held) return stillHeld(context, seat, look)
        seat.firstSince ??= look.begunAt
        const waitMs = settlesInMs(seat.firstSince, seat.thereAt, look.begunAt, settleMs)
        if (waitMs <= 0) return grant(context, seat, look, verdict, deadline)
        await deadline.pause(waitMs)
      }
    }
  }
}

/** A look should show the claim and does not: whether its comment is gone, or the look too old, an edit tells. */
async function goneFrom(
  context: GithubContext,
  seat: Seat,
  look: Look,
  deadline: Deadline,
): Promise<ClaimStatus | undefined> {
  if (context.trustedAuthors.isRefused(seat.author)) return vanish(context, seat, look.thread)
  return heartbeat(context, seat, seat.record.ttlMs, deadline)
}

/** Whether a look must show the claim, if it is there at all. */
export function mustShow({ settleMs }: GithubContext, seat: Seat, look: Look): boolean {
  return look.begunAt >= seat.thereAt + settleMs
}

export function heldBy({ comment, after }: Seat, ttlMs: number): ClaimStatus {
  return { state: 'held', fence: comment, ttlMs, ...(after !== undefined && { after }) }
}

/** What is certainly left of a lease: counted from before its last edit was sent, and no more than GitHub's clock says. */
export function leftMs(
  context: GithubContext,
  seat: Seat,
  updatedAt = seat.updatedAt,
  dateMs = timeAt(context),
): number {
  const { ttlMs } = seat.record
  const ownMs = seat.editedAt + ttlMs - context.environment.now()
  return Math.max(0, Math.min(ownMs, updatedAt + ttlMs + roundingMs - dateMs))
}

/** Somebody stands before the claim. Undefined: what is in its way was dealt with, look again. */
async function wait(
  context: GithubContext,
  seat: Seat,
  look: Look,
  { overdue, clearing, ahead, againMs }: Extract<Verdict, { state: 'behind' }>,
  mayWait: boolean,
  deadline: Deadline,
): Promise<ClaimStatus | undefined> {
  seat.firstSince = undefined
  if (await turnOut(context, seat, look, deadline)) return undefined
  if (overdue.length > 0) {
    await takeOver(context, takerOf(seat), overdue, 'expired', 'expired', deadline)
    return undefined
  }
  // A takeover is safe soon after: that is worth staying for.
  const isSoon = againMs <= Math.max(3 * context.settleMs, 2 * roundingMs) && againMs < deadline.leftMs / 2
  if (clearing && isSoon) {
    await deadline.pause(againMs)
    return undefined
  }
  if (!mayWait) return refuse(context, seat, look.thread, deadline)
  const askMs = staleInMs(context, seat, look, againMs)
  seat.waiting = { ahead, againMs: askMs, at: context.environment.now() }
  return { state: 'waiting', ahead, ttlMs: leftMs(context, seat), againMs: askMs }
}

/** A claim that may turn out a silent holder asks again when that one has been silent enough. */
function staleInMs({ settleMs }: GithubContext, { evict, staleMs = 0 }: Seat, look: Look, againMs: number): number {
  const head = headOf(look.thread)
  if (evict !== 'stale' || head === undefined) return againMs
  return Math.max(1, Math.min(againMs, head.updatedAt + staleMs + settleMs + roundingMs - look.dateMs))
}

/** Nobody stands before the claim: it holds from now on, and its comment says so. */
async function grant(
  context: GithubContext,
  seat: Seat,
  look: Look,
  { claim }: Extract<Verdict, { state: 'first' }>,
  deadline: Deadline,
): Promise<ClaimStatus> {
  const ttlMs = leftMs(context, seat, claim.updatedAt, look.dateMs)
  seat.held = true
  seat.after = successionOf(look.thread, seat.comment)
  seat.record = { ...seat.record, heldSince: timeAt(context) }
  const editedAt = context.environment.now()
  try {
    const edited = await context.api.editComment(seat.comment, claimText(seat.record), deadline)
    if (edited === undefined) return vanish(context, seat, look.thread)
    Object.assign(seat, { updatedAt: edited.comment.updatedAt, editedAt })
  } catch {
    // It holds all the same. The first heartbeat will say so.
  }
  context.signs.putUp(seat.issue, seat.author, ousted(look.thread, seat.comment)?.author)
  context.mirror.put(seat.issue, seat.record)
  return heldBy(seat, ttlMs)
}

function stillHeld(context: GithubContext, seat: Seat, look: Look): ClaimStatus {
  const place = look.thread.claims.find(({ comment }) => comment === seat.comment)
  seat.after ??= successionOf(look.thread, seat.comment)
  return heldBy(seat, leftMs(context, seat, place?.updatedAt, look.dateMs))
}
