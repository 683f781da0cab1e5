/** Finding out where a claim stands, by as many looks at its issue as it takes to be sure. */
import type { Standing } from '../../core/driver.ts'
import { claimText } from './claim-comment.ts'
import { roundingMs } from './comment.ts'
import type { Deadline } from './deadline.ts'
import { timeAt, type Desk } from './desk.ts'
import { settleDuplicates } from './entering.ts'
import { heartbeat } from './heartbeat.ts'
import { endedBy, expire, leave, refuse, vanish } from './leaving.ts'
import type { Seat } from './seats.ts'
import { takeOver, takerOf, turnOut } from './taking-over.ts'
import { ousted, successionOf } from './thread.ts'
import { headOf, settlesInMs, verdictOn, type Look, type Verdict } from './verdict.ts'

/** Where a claim stands. */
export async function stand(desk: Desk, seat: Seat, mayWait: boolean, deadline: Deadline): Promise<Standing> {
  const { settleMs } = desk
  for (;;) {
    const look = await desk.reader.look(seat.issue, seat.key, deadline)
    await settleDuplicates(desk, seat, look, deadline)
    const verdict = verdictOn(look, seat, settleMs)
    switch (verdict.state) {
      case 'missing': {
        const gone = mustShow(desk, seat, look) ? await goneFrom(desk, seat, look, deadline) : undefined
        if (gone !== undefined) return gone
        await deadline.pause(settleMs)
        continue
      }
      case 'ended':
        return leave(desk, seat, endedBy(verdict.claim.end), look.thread)
      case 'expired':
        return expire(desk, seat, look.thread, deadline)
      case 'behind': {
        if (seat.held) return stillHeld(desk, seat, look)
        const standing = await wait(desk, seat, look, verdict, mayWait, deadline)
        if (standing !== undefined) return standing
        continue
      }
      case 'first': {
        if (seat.held) return stillHeld(desk, seat, look)
        seat.firstSince ??= look.begunAt
        const waitMs = settlesInMs(seat.firstSince, seat.thereAt, look.begunAt, settleMs)
        if (waitMs <= 0) return grant(desk, seat, look, verdict, deadline)
        await deadline.pause(waitMs)
      }
    }
  }
}

/** A look should show the claim and does not: whether its comment is gone, or the look too old, an edit tells. */
async function goneFrom(desk: Desk, seat: Seat, look: Look, deadline: Deadline): Promise<Standing | undefined> {
  if (desk.writers.isRefused(seat.author)) return vanish(desk, seat, look.thread)
  return heartbeat(desk, seat, seat.record.ttlMs, deadline)
}

/** Whether a look must show the claim, if it is there at all. */
export function mustShow({ settleMs }: Desk, seat: Seat, look: Look): boolean {
  return look.begunAt >= seat.thereAt + settleMs
}

export function heldBy({ comment, after }: Seat, ttlMs: number): Standing {
  return { state: 'held', fence: comment, ttlMs, ...(after !== undefined && { after }) }
}

/** What is certainly left of a lease: counted from before its last edit was sent, and no more than GitHub's clock says. */
export function leftMs(desk: Desk, seat: Seat, updatedAt = seat.updatedAt, dateMs = timeAt(desk)): number {
  const { ttlMs } = seat.record
  const ownMs = seat.editedAt + ttlMs - desk.environment.now()
  return Math.max(0, Math.min(ownMs, updatedAt + ttlMs + roundingMs - dateMs))
}

/** Somebody stands before the claim. Undefined: what is in its way was dealt with, look again. */
async function wait(
  desk: Desk,
  seat: Seat,
  look: Look,
  { overdue, clearing, ahead, againMs }: Extract<Verdict, { state: 'behind' }>,
  mayWait: boolean,
  deadline: Deadline,
): Promise<Standing | undefined> {
  seat.firstSince = undefined
  if (await turnOut(desk, seat, look, deadline)) return undefined
  if (overdue.length > 0) {
    await takeOver(desk, takerOf(seat), overdue, 'expired', 'expired', deadline)
    return undefined
  }
  // A takeover is safe soon after: that is worth staying for.
  const isSoon = againMs <= Math.max(3 * desk.settleMs, 2 * roundingMs) && againMs < deadline.leftMs / 2
  if (clearing && isSoon) {
    await deadline.pause(againMs)
    return undefined
  }
  if (!mayWait) return refuse(desk, seat, look.thread, deadline)
  const askMs = staleInMs(desk, seat, look, againMs)
  seat.waiting = { ahead, againMs: askMs, at: desk.environment.now() }
  return { state: 'waiting', ahead, ttlMs: leftMs(desk, seat), againMs: askMs }
}

/** A claim that may turn out a silent holder asks again when that one has been silent enough. */
function staleInMs({ settleMs }: Desk, { evict, staleMs = 0 }: Seat, look: Look, againMs: number): number {
  const head = headOf(look.thread)
  if (evict !== 'stale' || head === undefined) return againMs
  return Math.max(1, Math.min(againMs, head.updatedAt + staleMs + settleMs + roundingMs - look.dateMs))
}

/** Nobody stands before the claim: it holds from now on, and its comment says so. */
async function grant(
  desk: Desk,
  seat: Seat,
  look: Look,
  { claim }: Extract<Verdict, { state: 'first' }>,
  deadline: Deadline,
): Promise<Standing> {
  const ttlMs = leftMs(desk, seat, claim.updatedAt, look.dateMs)
  seat.held = true
  seat.after = successionOf(look.thread, seat.comment)
  seat.record = { ...seat.record, heldSince: timeAt(desk) }
  const editedAt = desk.environment.now()
  try {
    const edited = await desk.hub.editComment(seat.comment, claimText(seat.record), deadline)
    if (edited === undefined) return vanish(desk, seat, look.thread)
    Object.assign(seat, { updatedAt: edited.comment.updatedAt, editedAt })
  } catch {
    // It holds all the same. The first heartbeat will say so.
  }
  desk.signs.putUp(seat.issue, seat.author, ousted(look.thread, seat.comment)?.author)
  desk.mirror.put(seat.issue, seat.record)
  return heldBy(seat, ttlMs)
}

function stillHeld(desk: Desk, seat: Seat, look: Look): Standing {
  const place = look.thread.claims.find(({ comment }) => comment === seat.comment)
  seat.after ??= successionOf(look.thread, seat.comment)
  return heldBy(seat, leftMs(desk, seat, place?.updatedAt, look.dateMs))
}
