/** Takeovers: comments that end the claims of others. */
import type { Deadline } from '../api/deadline.ts'
import { timeAt, type GithubContext } from './context.ts'
import { isInDoubt } from '../api/faults.ts'
import type { LocalClaim } from './local-claims.ts'
import { takeoverText, type TakeoverCause } from '../protocol/takeover-comment.ts'
import { conflicts, standsFrom } from '../protocol/precedence.ts'
import { isDisplaceable, type ThreadClaim } from '../protocol/thread.ts'
import { isSilent, type IssueReading } from '../protocol/verdict.ts'

/** The issue and key of a takeover, and the worker that writes it. */
export interface TakeoverAuthor {
  readonly issue: number
  readonly key: string
  readonly worker: string
}

/**
 * Ends claims for good; the first of them is the holder. Of a forced takeover the waiters only lose their places. A takeover is idempotent: if its reply is lost, the next reading
 * shows whether it arrived.
 */
export async function takeOver(
  context: GithubContext,
  { issue, key, worker }: TakeoverAuthor,
  claims: readonly ThreadClaim[],
  cause: TakeoverCause,
  reason: string,
  deadline: Deadline,
): Promise<void> {
  const named = claims.map((claim, place) => {
    const held = place === 0 || claim.record?.heldSince !== undefined
    return {
      comment: claim.comment,
      worker: claim.worker,
      held,
      moves: cause === 'forced' && !held && isDisplaceable(claim),
    }
  })
  const ends = named.filter(({ moves }) => !moves)
  const displaces = named.filter(({ moves }) => moves).map(({ comment }) => comment)
  const body = takeoverText({ key, by: worker, cause, reason, at: timeAt(context), ends, displaces })
  try {
    const { id, author, createdAt } = await context.api.createComment(issue, body, deadline)
    context.trustedAuthors.own(author)
    const by = { how: 'taken over', cause, reason, comment: id, at: createdAt } as const
    context.reader.wrote({
      ends: new Map(ends.map(({ comment, held }) => [comment, { ...by, held }])),
      displaced: new Map(displaces.map((comment) => [comment, { ...by, held: true }])),
    })
  } catch (error) {
    if (!isInDoubt(error)) throw error
    await deadline.pause(context.settleMs)
  }
}

/** Ends the claims that this claim may evict by its `evict` rule. True: there were any. */
export async function evictAhead(
  context: GithubContext,
  localClaim: LocalClaim,
  read: IssueReading,
  deadline: Deadline,
): Promise<boolean> {
  const { comment, place, evict, staleMs = 0 } = localClaim
  const own = read.thread.claims.find((claim) => claim.comment === comment)
  if (own === undefined || place === 'none') return false
  const open = read.thread.claims
    .filter((claim) => claim.end === undefined && standsFrom(claim) < place && conflicts(claim, own))
    .toSorted((first, second) => standsFrom(first) - standsFrom(second))
  if (open.length === 0 || evict === undefined) return false
  if (evict === 'all') {
    // The waiters before it lose their places: one granted later would have a lower fence than this claim.
    await takeOver(context, takeoverBy(localClaim), open, 'forced', 'forced', deadline)
    return true
  }
  // A waiter that has just become the first, without a grant, is not a silent holder.
  const silent = open.filter((claim, index) => {
    const holds = claim.record === undefined ? index === 0 : claim.record.heldSince !== undefined
    return holds && isSilent(claim, read, staleMs, context.settleMs)
  })
  if (silent.length === 0) return false
  await takeOver(context, takeoverBy(localClaim), silent, 'stale', 'stale', deadline)
  return true
}

/** A takeover in the name of this claim. */
export function takeoverBy({ issue, key, record }: LocalClaim): TakeoverAuthor {
  return { issue, key, worker: record.runner.worker }
}
