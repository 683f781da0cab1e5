/** The comments of one issue read as the queue of one key. Pure. */
import type { Succession } from '../../../core/contract/driver.ts'
import { brokenClaimIn, claimIn, type BrokenClaim, type CommentRecord } from './claim-comment.ts'
import { isText, type Comment } from './comment-text.ts'
import { runnerOf } from './published-runner.ts'
import { takeoverIn, type TakeoverCause } from './takeover-comment.ts'

/** How a claim ended. */
export type ClaimEnd =
  | { readonly how: 'completed'; readonly result: string; readonly at: number }
  /** A later claim has been held, so this claim is over, whatever its comment says. */
  | { readonly how: 'superseded'; readonly at: number }
  | {
      readonly how: 'taken over'
      readonly cause: TakeoverCause
      readonly reason: string
      readonly held: boolean
      /** The takeover comment, and when it was created. */
      readonly comment: number
      readonly at: number
    }

/** One place in the queue. */
export interface ThreadClaim {
  /** Its comment: the place in the queue, and the fence. */
  readonly comment: number
  /**
   * Undefined: somebody broke the comment. Unless the claim was completed before, it stays in the queue until it is taken
   * over like any other.
   */
  readonly record: CommentRecord | undefined
  readonly ttlMs: number
  readonly worker: string
  readonly author: string
  readonly createdAt: number
  readonly updatedAt: number
  readonly end: ClaimEnd | undefined
}

/** The queue of one key. */
export interface Thread {
  /** In queue order, ended claims included. */
  readonly claims: readonly ThreadClaim[]
  /** Comments that repeat a claim. They are ignored. */
  readonly duplicates: readonly { readonly id: string; readonly comment: number }[]
}

/**
 * Reads comments, which must be those of trusted authors, as the queue of a key. `brokenTtlMs` is the ttl of a broken claim
 * that does not tell its own. `known` are the ends, by claim comment, that are certain even if a stale reading lacks them.
 */
export function readThread(
  comments: readonly Comment[],
  key: string,
  brokenTtlMs: number,
  known: ReadonlyMap<number, ClaimEnd> = new Map(),
): Thread {
  const ordered = [...new Map(comments.map((comment) => [comment.id, comment])).values()].toSorted(
    (first, second) => first.id - second.id,
  )
  const claims: Place[] = []
  const duplicates: { id: string; comment: number }[] = []
  const takeovers = new Map<number, ClaimEnd>(known)
  const ids = new Set<string>()
  for (const comment of ordered) {
    if (isText('claim', comment.body)) {
      const record = claimIn(comment.body)
      const broken = record === undefined ? brokenClaimIn(comment.body) : undefined
      // A broken claim without a readable key counts for every key of its issue.
      if ((record?.key ?? broken?.key ?? key) !== key) continue
      // A request whose reply was lost is sent again: the comment with the lowest id is the claim.
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

/** A place in the queue, and the result its owner wrote on completion. */
interface Place extends Omit<ThreadClaim, 'end'> {
  readonly result: string | undefined
}

/** The previous holder of the key, if a takeover ended it. */
export function evictedBefore(thread: Thread, comment: number): ThreadClaim | undefined {
  const before = heldBefore(thread, comment)
  return before?.end?.how === 'taken over' ? before : undefined
}

/** The succession to report to this claim, if the previous holder ended uncleanly. */
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

/** The result that an owner writes when it finds its own lease expired. */
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
    // A takeover cannot end a claim that was created after it.
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
