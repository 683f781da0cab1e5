/** The comments of one issue read as the queue of one key. Pure. */
import type { Mode, Succession } from '../../../core/contract/driver.ts'
import { brokenClaimIn, claimIn, type BrokenClaim, type CommentRecord, type ReplacedClaim } from './claim-comment.ts'
import { isText, type Comment } from './comment-text.ts'
import { runnerOf } from './published-runner.ts'
import { conflicts, replaces, standsFrom } from './precedence.ts'
import { takeoverIn, type TakeoverCause } from './takeover-comment.ts'
import { turnIn } from './turn-comment.ts'

/** How a claim ended. */
export type ClaimEnd =
  | { readonly how: 'completed'; readonly result: string; readonly at: number }
  /** A later claim has been held, so this claim is over, whatever its comment says. */
  | { readonly how: 'superseded'; readonly at: number }
  | TakenOver

/** What a takeover comment says of a claim. */
export interface TakenOver {
  readonly how: 'taken over'
  readonly cause: TakeoverCause
  readonly reason: string
  readonly held: boolean
  /** The takeover comment, and when it was created. */
  readonly comment: number
  readonly at: number
}

/** What takeovers say, by the comments of the claims they name. */
export interface Takeovers {
  /** The first takeover that ended each claim. */
  readonly ends: ReadonlyMap<number, TakenOver>
  /** The last takeover that took the place of each waiter. */
  readonly displaced: ReadonlyMap<number, TakenOver>
}

/** One place in the queue. */
export interface ThreadClaim {
  /** Its comment, which orders claims by arrival. */
  readonly comment: number
  /** Its place in the queue, and its fence: its comment, or the turn after it stepped back. Undefined: it has stepped back, and waits for its turn. */
  readonly place: number | undefined
  readonly mode: Mode
  readonly priority: number
  /** The claim that it replaces, if it is a conversion. */
  readonly replaced: ReplacedClaim | undefined
  /** Whether its owner steps back for a claim that goes first. */
  readonly yields: boolean
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
  /** Set if a forced claim has taken its place before it was known to hold: the claim waits on, and takes a later one. */
  readonly displaced: TakenOver | undefined
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
 * that does not tell its own. `known` are takeovers that are certain even if a stale reading lacks them.
 */
export function readThread(comments: readonly Comment[], key: string, brokenTtlMs: number, known?: Takeovers): Thread {
  const ordered = [...new Map(comments.map((comment) => [comment.id, comment])).values()].toSorted(
    (first, second) => first.id - second.id,
  )
  const claims: Place[] = []
  const duplicates: { id: string; comment: number }[] = []
  const ends = new Map(known?.ends)
  const displacements = new Map(known?.displaced)
  const turns: Turn[] = []
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
    const turn = turnIn(comment.body)
    if (turn?.key === key) turns.push({ ...turn, comment: comment.id, author: comment.author })
    const takeover = takeoverOf(comment, key)
    for (const [ended, end] of takeover.ends) if (!ends.has(ended)) ends.set(ended, end)
    for (const [moved, by] of takeover.displaced) displacements.set(moved, laterOf(by, displacements.get(moved)))
  }
  const placed = claims.map((claim) => {
    const displaced = isDisplaceable(claim) ? displacements.get(claim.comment) : undefined
    return { ...claim, place: placeIn(claim, turns, displaced?.comment ?? 0), end: undefined, displaced }
  })
  const held = placed.filter(isHeldByItsPlace)
  const ended = placed.map(({ result, ...claim }) => ({
    ...claim,
    end: endOf({ ...claim, result }, ends, held),
  }))
  return { claims: ended, duplicates }
}

/**
 * Whether a forced claim may take the place of a claim without ending it: its owner must know what that means. A conversion stands where
 * the lease that it replaces stands, and ends with it.
 */
export function isDisplaceable({ yields, replaced }: Pick<ThreadClaim, 'yields' | 'replaced'>): boolean {
  return yields && replaced === undefined
}

/** Whether the grant that a claim's comment tells is one by the place that it has, and not by one that it has lost since. */
function isHeldByItsPlace({ record, place, comment }: Omit<ThreadClaim, 'end'>): boolean {
  return record?.heldSince !== undefined && place !== undefined && (record.turn ?? comment) >= place
}

/** A turn of a claim. Only the claim's own author can write one. */
interface Turn {
  readonly comment: number
  readonly claim: number
  readonly left: number
  readonly author: string
}

/**
 * The first place of a claim that it has not given up. The first: if a turn was sent twice because its reply was lost, the later one
 * must not move a claim that holds by the earlier.
 */
function placeIn({ comment, record, author }: Place, turns: readonly Turn[], displacedBy: number): number | undefined {
  const own = turns.filter((turn) => turn.claim === comment && turn.author === author && turn.comment > comment)
  const left = own.reduce((last, turn) => Math.max(last, turn.left), Math.max(displacedBy, record?.left ?? 0))
  const places = [comment, ...own.map((turn) => turn.comment), ...(record?.turn === undefined ? [] : [record.turn])]
  return places.reduce<number | undefined>(
    (first, place) => (place > left && place < (first ?? Infinity) ? place : first),
    undefined,
  )
}

/** A place in the queue, and the result its owner wrote on completion. */
interface Place extends Omit<ThreadClaim, 'end' | 'place' | 'displaced'> {
  readonly result: string | undefined
}

/** The previous holder of the key, if a takeover ended it. */
export function evictedBefore(thread: Thread, place: number): ThreadClaim | undefined {
  const before = heldBefore(thread, place)
  return before?.end?.how === 'taken over' ? before : undefined
}

/** The succession to report to this claim, if the previous holder ended uncleanly. */
export function successionOf(thread: Thread, place: number): Succession | undefined {
  const before = heldBefore(thread, place)
  const { end, record } = before ?? {}
  if (before === undefined || record === undefined) return undefined
  const runner = runnerOf(record.runner, record.task)
  if (end?.how === 'taken over') {
    const fence = fenceAt(before)
    if (end.cause === 'expired') return { how: 'expired', fence, runner }
    return { how: 'evicted', cause: end.cause === 'evicted' ? 'operator' : end.cause, fence, runner }
  }
  const expired = end?.how === 'completed' && end.result === expiredResult
  return expired ? { how: 'expired', fence: fenceAt(before), runner } : undefined
}

function heldBefore({ claims }: Thread, place: number): ThreadClaim | undefined {
  const before = claims.filter((claim) => fenceAt(claim) < place && hasBeenHeld(claim))
  return before.toSorted((first, second) => fenceAt(first) - fenceAt(second)).at(-1)
}

/** The fence of a claim that holds or has held. */
export function fenceAt({ place, comment }: Pick<ThreadClaim, 'place' | 'comment'>): number {
  return place ?? comment
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
    mode: record?.mode ?? 'exclusive',
    priority: record?.priority ?? 0,
    replaced: record?.replaces,
    yields: record !== undefined && record.old !== true,
    ttlMs: record?.ttlMs ?? broken?.ttlMs ?? brokenTtlMs,
    result: record?.completion?.result ?? broken?.result,
    worker: record?.runner.worker ?? author,
    author,
    createdAt,
    updatedAt,
  }
}

function takeoverOf({ id, body, createdAt }: Comment, key: string): Takeovers {
  const takeover = takeoverIn(body)
  if (takeover?.key !== key) return { ends: new Map(), displaced: new Map() }
  const { cause, reason, ends, displaces = [] } = takeover
  const by = { how: 'taken over', cause, reason, comment: id, at: createdAt } as const
  // A takeover cannot end a claim that was created after it.
  const earlier = ends.filter(({ comment }) => comment < id)
  return {
    ends: new Map(earlier.map(({ comment, held }) => [comment, { ...by, held }])),
    // Its owner is told of this only if it held the claim: the grant and the takeover crossed.
    displaced: new Map(displaces.filter((comment) => comment < id).map((comment) => [comment, { ...by, held: true }])),
  }
}

function laterOf(takeover: TakenOver, other: TakenOver | undefined): TakenOver {
  return other !== undefined && other.comment > takeover.comment ? other : takeover
}

function endOf(
  claim: ThreadClaim & Pick<Place, 'result'>,
  takeovers: ReadonlyMap<number, TakenOver>,
  held: readonly ThreadClaim[],
): ClaimEnd | undefined {
  const { comment, result, updatedAt } = claim
  const takeover = takeovers.get(comment)
  if (takeover !== undefined) return takeover
  if (result !== undefined) return { how: 'completed', result, at: updatedAt }
  const later = held.findLast((other) => isSupersededBy(claim, other))
  return later === undefined ? undefined : { how: 'superseded', at: later.record?.heldSince ?? later.createdAt }
}

/** A claim is over once a conversion of it, or a later claim that it excludes, has been held. */
function isSupersededBy(claim: ThreadClaim, held: ThreadClaim): boolean {
  if (held.comment === claim.comment) return false
  return replaces(held, claim) || (conflicts(held, claim) && (claim.place ?? Infinity) < standsFrom(held))
}
