/** How a claim ends, and what its owner is told. */
import type { Standing } from '../../core/driver.ts'
import { claimText } from './claim-comment.ts'
import type { Deadline } from './deadline.ts'
import { timeAt, type Desk } from './desk.ts'
import { isGone } from './faults.ts'
import type { Absent, Seat } from './seats.ts'
import { expiredResult, type ClaimEnd, type ThreadClaim } from './thread.ts'

export const unknownClaim: Absent = { state: 'absent', reason: 'unknown' }
export const deleted: Absent = { state: 'absent', reason: 'evicted', detail: 'its comment was deleted' }

/** What the owner of an ended claim is told. */
export function endedBy(end: ClaimEnd | undefined): Absent {
  if (end?.how === 'taken over') {
    if (end.cause === 'expired') return { state: 'absent', reason: 'expired' }
    // Who only waited has lost its place and nothing else: it may queue anew.
    return end.held ? { state: 'absent', reason: 'evicted', detail: end.reason } : unknownClaim
  }
  const expired = end?.how === 'completed' && end.result === expiredResult
  return { state: 'absent', reason: expired ? 'expired' : 'unknown' }
}

/** Turns the claim's comment into a record of what it was. */
export async function complete(desk: Desk, seat: Seat, result: string, deadline: Deadline): Promise<void> {
  const at = timeAt(desk)
  const { heldSince } = seat.record
  const durationMs = heldSince === undefined ? 0 : Math.max(0, Math.round(at - heldSince))
  const record = { ...seat.record, completion: { result, durationMs, at } }
  await desk.hub.editComment(seat.comment, claimText(record), deadline)
}

/** The owner came too late: it says so itself, which spares the next one the waiting. */
export async function expire(desk: Desk, seat: Seat, deadline: Deadline): Promise<Standing> {
  await complete(desk, seat, expiredResult, deadline)
  return leave(desk, seat, { state: 'absent', reason: 'expired' })
}

/** Takes back a claim that would not wait: it never was more than a question. */
export async function refuse(desk: Desk, seat: Seat, deadline: Deadline): Promise<Standing> {
  await desk.hub.deleteComment(seat.comment, deadline).catch((error: unknown) => {
    if (!isGone(error)) throw error
  })
  return leave(desk, seat, { state: 'absent', reason: 'refused' })
}

/** The claim is over: forgets it, and takes down its signs. `next` is who will hold now, if that is known. */
export function leave(desk: Desk, seat: Seat, standing: Absent, next?: ThreadClaim): Standing {
  desk.results.delete(seat.comment)
  if (seat.held) {
    desk.mirror.drop(seat.issue)
    desk.signs.takeDown(seat.issue, seat.author, next?.author)
  }
  return desk.seats.end(seat.id, standing)
}
