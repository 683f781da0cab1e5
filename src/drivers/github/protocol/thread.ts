/** The comments of one issue read as the queue of one key. Pure. */
import type { Succession } from '../../../core/contract/driver.ts'
import { brokenClaimIn, claimIn, type BrokenClaim, type CommentRecord } from './claim-comment.ts'
import { isText, type Comment } from './comment-text.ts'
import { runnerOf } from './published-runner.ts'
import { takeoverIn, type TakeoverCause } from './takeover-comment.ts'

/** How a claim came to its end. */
export type ClaimEnd =
  | { readonly how: 'completed'; readonly result: string; readonly at: number }
  /** A later claim has been held: whatever this one's comment says now, its turn is over. */
  | { readonly how: 'superseded'; readonly at: number }
  | {
      readonly how: 'taken over'
      readonly cause: TakeoverCause
      readonly reason: string
      readonly held: boolean
      /** The comment that names it, and when that was made. */
      readonly comment: number
      readonly at: number
    }

/** One place in the queue. */
export interface ThreadClaim {
  /** Its comment: the place in the queue, and the fence. */
  readonly comment: number
  /**
   * Undefined: somebody broke it. Unless it was completed before, it goes on status in the way until it is taken over like
   * any other.
   */
  readonly record: CommentRecord | undefined
  readonly ttlMs: number
  readonly worker: string
  readonly author: string
  readonly createdAt: number
  readonly updatedAt: number
  readonly end: ClaimEnd | undefined
}

export interface Thread {
  /** In the order of the queue, ended ones included. */
  readonly claims: readonly ThreadClaim[]
  /** Comments that repeat a claim: they count for nothing. */
  readonly duplicates: readonly { readonly id: string; readonly comment: number }[]
}

/**
 * Reads the comments that count, see `trusted-authors.ts`. `brokenTtlMs` is the ttl of a broken claim that does not tell its own,
 * `known` has ends by their claims' comments that are certain, whether the reading shows them or not.
 */
export function readThread(
  comments: readonly Comment[],
  key: string,
  brokenTtlMs: number,
  known: ReadonlyMap<number, ClaimEnd> = new Map(),
): Thread {
  const ordered = [...new Map(comments.map((comment) => [comment.id, comment])).values()].toSorted(
    (one, other) => one.id - other.id,
  )
  const claims: Place[] = []
  const duplicates: { id: string; comment: number }[] = []
  const takeovers = new Map<number, ClaimEnd>(known)
  const ids = new Set<string>()
  for (const comment of ordered) {
    if (isText('claim', comment.body)) {
      const record = claimIn(comment.body)
      const broken = record === undefined ? brokenClaimIn(comment.body) : undefined
      // A broken claim that does not even tell its key belongs to every key of its issue.
      if ((record?.key ?? broken?.key ?? key) !== key) continue
      // A request whose reply was lost is sent again: the lowest of its comments is the claim.
      if (record !== undefined && ids.has(record.id)) duplicates.push({ id: record.id, comment: comment.id })
      else claims.push(placeOf(comment, record, broken, brokenTtlMs))
      if (record !== undefined) ids.add(record.id)
    }
    for (const [ended, end] of endsIn(comment, key)) if (!takeovers.has(ended)) takeovers.set(ended, end)
  }
  const lastHeld = claims.findLast(({ record }) => record?.heldSince !== undefined)
  const ended = claims.map(({ result, ...claim }) => ({
    ...claim,
    end: endOf({ ...claim, result }, takeovers, lastHeld),
  }))
  return { claims: ended, duplicates }
}

/** A place in the queue, and what its owner said when it was done. */
interface Place extends Omit<ThreadClaim, 'end'> {
  readonly result: string | undefined
}

/** Who held the key before this claim, if others ended that one. */
export function evictedBefore(thread: Thread, comment: number): ThreadClaim | undefined {
  const before = heldBefore(thread, comment)
  return before?.end?.how === 'taken over' ? before : undefined
}

/** What is to be told of who held the key before this claim, if that claim ended uncleanly. */
export function successionOf(thread: Thread, comment: number): Succession | undefined {
  const before = heldBefore(thread, comment)
  const { end, record } = before ?? {}
  if (before === undefined || record === undefined) return undefined
  const runner = runnerOf(record.runner, record.task)
  if (end?.how === 'taken over') {
    return { how: end.cause === 'expired' ? 'expired' : 'evicted', fence: before.comment, runner }
  }
  const expired = end?.how === 'completed' && end.result === expiredResult
  return expired ? { how: 'expired', fence: before.comment, runner } : undefined
}

function heldBefore({ claims }: Thread, comment: number): ThreadClaim | undefined {
  return claims.findLast((claim) => claim.comment < comment && hasBeenHeld(claim))
}

/** The result that an owner writes who finds that it came too late. */
export const expiredResult = 'expired'

function hasBeenHeld({ record, end }: ThreadClaim): boolean {
  return record?.heldSince !== undefined || (end?.how === 'taken over' && end.held)
}

function placeOf(
  comment: Comment,
  record: CommentRecord | undefined,
  broken: BrokenClaim | undefined,
  brokenTtlMs: number,
): Place {
  const { id, createdAt, updatedAt, author } = comment
  return {
    comment: id,
    record,
    ttlMs: record?.ttlMs ?? broken?.ttlMs ?? brokenTtlMs,
    result: record?.completion?.result ?? broken?.result,
    worker: record?.runner.worker ?? author,
    author,
    createdAt,
    updatedAt,
  }
}

function* endsIn({ id, body, createdAt }: Comment, key: string): Iterable<[number, ClaimEnd]> {
  const takeover = takeoverIn(body)
  if (takeover?.key !== key) return
  const { cause, reason } = takeover
  for (const { comment, held } of takeover.ends) {
    // Nobody can end what comes later.
    if (comment < id) yield [comment, { how: 'taken over', cause, reason, held, comment: id, at: createdAt }]
  }
}

function endOf(
  { comment, result, updatedAt }: Place,
  takeovers: ReadonlyMap<number, ClaimEnd>,
  lastHeld: Place | undefined,
): ClaimEnd | undefined {
  const takeover = takeovers.get(comment)
  if (takeover !== undefined) return takeover
  if (result !== undefined) return { how: 'completed', result, at: updatedAt }
  if (lastHeld !== undefined && comment < lastHeld.comment) {
    return { how: 'superseded', at: lastHeld.record?.heldSince ?? lastHeld.createdAt }
  }
  return undefined
}
