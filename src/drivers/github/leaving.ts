/** How a claim ends, and what its owner is told. */
import type { ClaimStatus } from '../../core/driver.ts'
import { claimText } from './claim-comment.ts'
import type { Deadline } from './deadline.ts'
import { timeAt, type GithubContext } from './context.ts'
import { isGone, unavailable } from './faults.ts'
import type { Absent, Seat } from './seats.ts'
import { expiredResult, type ClaimEnd, type Thread } from './thread.ts'

export const unknownClaim: Absent = { state: 'absent', reason: 'unknown' }
const deleted: Absent = { state: 'absent', reason: 'evicted', detail: 'its comment was deleted' }
const disowned: Absent = { state: 'absent', reason: 'evicted', detail: 'its account may not write any more' }

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

/** Turns the claim's comment into a record of what it was. False: the comment is not there any more. */
export async function complete(
  context: GithubContext,
  seat: Seat,
  result: string,
  deadline: Deadline,
): Promise<boolean> {
  const at = timeAt(context)
  const { heldSince } = seat.record
  const durationMs = heldSince === undefined ? 0 : Math.max(0, Math.round(at - heldSince))
  const record = { ...seat.record, completion: { result, durationMs, at } }
  return (await context.api.editComment(seat.comment, claimText(record), deadline)) !== undefined
}

/** The owner came too late: it says so itself, which spares the next one the waiting. */
export async function expire(
  context: GithubContext,
  seat: Seat,
  thread: Thread,
  deadline: Deadline,
): Promise<ClaimStatus> {
  await complete(context, seat, expiredResult, deadline)
  return leave(context, seat, { state: 'absent', reason: 'expired' }, thread)
}

/** Its comment is not there, or counts no more. */
export function vanish(context: GithubContext, seat: Seat, thread: Thread): ClaimStatus {
  if (!context.trustedAuthors.isRefused(seat.author)) return leave(context, seat, deleted, thread)
  if (seat.held) return leave(context, seat, disowned, thread)
  throw unavailable('The token may not write to the repository any more, so its claims do not count.', 'auth')
}

/** Takes back a claim that would not wait: it never was more than a question. */
export async function refuse(
  context: GithubContext,
  seat: Seat,
  thread: Thread,
  deadline: Deadline,
): Promise<ClaimStatus> {
  await context.api.deleteComment(seat.comment, deadline).catch((error: unknown) => {
    if (!isGone(error)) throw error
  })
  return leave(context, seat, { state: 'absent', reason: 'refused' }, thread)
}

/** The claim is over: forgets it, and takes down its signs, except for what is also the next one's. */
export function leave(context: GithubContext, seat: Seat, status: Absent, thread: Thread): ClaimStatus {
  context.results.delete(seat.comment)
  if (seat.held) {
    const next = thread.claims.find(({ comment, end }) => comment !== seat.comment && end === undefined)
    context.mirror.drop(seat.issue, seat.id)
    context.signs.takeDown(seat.issue, seat.author, next?.author)
  }
  return context.seats.end(seat.id, status)
}
