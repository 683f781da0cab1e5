/**
 * The state of one claim in a reading of its issue. Pure: comments, GitHub's clock and the settle time in, a verdict out.
 *
 * Reads may be stale by less than `settleMs`. docs/decisions/060 argues why each step is still safe.
 */
import { roundingMs } from './comment-text.ts'
import type { Thread, ThreadClaim } from './thread.ts'

/** One reading of an issue, and when it was made. */
export interface IssueReading {
  readonly thread: Thread
  /** GitHub's clock when it answered, rounded down to a second. */
  readonly dateMs: number
  /** When the reading began: by the client's clock, and the earliest possible time by GitHub's. */
  readonly begunAt: number
  readonly begunDateMs: number
  /** By the client's clock: since when each takeover comment is known to exist. */
  readonly seenAt: ReadonlyMap<number, number>
}

/** The state of a claim. */
export type QueueVerdict =
  /** The reading does not show the claim. */
  | { readonly state: 'missing' }
  | { readonly state: 'ended'; readonly claim: ThreadClaim }
  /** Not renewed in time, and no takeover has ended it yet. */
  | { readonly state: 'expired'; readonly claim: ThreadClaim }
  /** Other claims are before it. `unrenewed`: all of them, if every one of them may be taken over, else empty. */
  | {
      readonly state: 'behind'
      readonly claim: ThreadClaim
      readonly ahead: number
      readonly againMs: number
      readonly unrenewed: readonly ThreadClaim[]
      /** All claims before it have ended: only the settling of a takeover is still in the way. */
      readonly cleanup: boolean
    }
  | { readonly state: 'first'; readonly claim: ThreadClaim }

/** What the owner of a claim knows from GitHub's replies: its comment, and the time of its last edit. */
export type KnownClaim = Pick<ThreadClaim, 'comment' | 'updatedAt'>

/** The state of a claim. If the reading is older than the claim's last edit, the known time of that edit counts. */
export function verdictOn(read: IssueReading, own: KnownClaim, settleMs: number): QueueVerdict {
  const { comment } = own
  const shown = read.thread.claims.find((claim) => claim.comment === comment)
  if (shown === undefined) return { state: 'missing' }
  const claim = { ...shown, updatedAt: Math.max(shown.updatedAt, own.updatedAt) }
  if (claim.end !== undefined) return { state: 'ended', claim }
  if (hasExpired(claim, read.dateMs)) return { state: 'expired', claim }
  const before = read.thread.claims.filter((earlier) => earlier.comment < comment)
  const open = before.filter(({ end }) => end === undefined)
  const waits = before.map((earlier) => blocksForMs(earlier, read, settleMs)).filter((ms) => ms > 0)
  if (open.length === 0 && waits.length === 0) return { state: 'first', claim }
  const alive = open.filter((earlier) => !hasExpired(earlier, read.dateMs))
  // Only the first live waiter takes over: otherwise every waiter would write the same comment.
  const unrenewed = open.every((earlier) => isUnrenewed(earlier, read, settleMs)) ? open : []
  return {
    state: 'behind',
    claim,
    ahead: Math.max(0, alive.length - 1),
    againMs: waits.length === 0 ? 0 : waits.reduce((first, wait) => Math.min(first, wait)),
    unrenewed,
    cleanup: open.length === 0,
  }
}

/** The first claim that has not ended: it holds the lock, or will once its owner asks. */
export function headOf(thread: Thread): ThreadClaim | undefined {
  return thread.claims.find(({ end }) => end === undefined)
}

/** Whether a lease has expired for its owner, by GitHub's clock. */
export function hasExpired({ updatedAt, ttlMs }: Pick<ThreadClaim, 'updatedAt' | 'ttlMs'>, dateMs: number): boolean {
  return dateMs - updatedAt >= ttlMs + roundingMs
}

/** Whether a claim has certainly not been edited for `forMs`, even if the reading is stale. */
export function isSilent(claim: ThreadClaim, read: IssueReading, forMs: number, settleMs: number): boolean {
  return read.dateMs - claim.updatedAt >= forMs + settleMs + roundingMs
}

/** For how long a claim still blocks those behind it, as far as this reading tells. */
function blocksForMs(claim: ThreadClaim, read: IssueReading, settleMs: number): number {
  const { end, updatedAt, ttlMs } = claim
  if (end === undefined) return Math.max(1, updatedAt + ttlMs + settleMs + roundingMs - read.dateMs)
  if (end.how !== 'taken over' || end.cause !== 'expired') return 0
  // An edit that crossed the takeover may have told its owner that it still holds. Such an edit came less than a settle
  // time after the takeover, so a reading two settle times after the takeover shows the edit. Its lease must expire first.
  const seenAt = read.seenAt.get(end.comment) ?? Infinity
  const showsAll = read.begunAt >= seenAt + 2 * settleMs || read.begunDateMs >= end.at + roundingMs + 2 * settleMs
  const lastEditMs = Math.min(updatedAt, end.at + settleMs)
  const leaseMs = Math.max(0, lastEditMs + ttlMs + roundingMs - read.dateMs)
  return showsAll ? leaseMs : Math.max(leaseMs, 2 * settleMs)
}

function isUnrenewed(claim: ThreadClaim, read: IssueReading, settleMs: number): boolean {
  return isSilent(claim, read, claim.ttlMs, settleMs)
}

/**
 * How long until a claim without others before it is granted: it needs two reads a settle time apart, the second at least
 * a settle time after its comment was created.
 */
export function settlesInMs(firstSince: number, thereAt: number, begunAt: number, settleMs: number): number {
  return Math.max(firstSince, thereAt) + settleMs - begunAt
}
