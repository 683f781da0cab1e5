/**
 * Where one claim stands in what was read. Pure: comments, GitHub's clock and the settle time in, a verdict out.
 *
 * Reads may be stale by less than `settleMs`. What that means for each step is argued in docs/decisions/060.
 */
import { roundingMs } from './comment-text.ts'
import type { Thread, ThreadClaim } from './thread.ts'

/** One reading of an issue, and what is known of when it was made. */
export interface IssueReading {
  readonly thread: Thread
  /** GitHub's clock when it answered: true time is this or up to a second later. */
  readonly dateMs: number
  /** When the reading began: by the client's clock, and at the earliest by GitHub's. */
  readonly begunAt: number
  readonly begunDateMs: number
  /** By the client's clock: since when each takeover comment is known to exist. */
  readonly seenAt: ReadonlyMap<number, number>
}

export type QueueVerdict =
  /** The reading does not show it. */
  | { readonly state: 'missing' }
  | { readonly state: 'ended'; readonly claim: ThreadClaim }
  /** Not renewed in time, and nobody has noted that yet. */
  | { readonly state: 'expired'; readonly claim: ThreadClaim }
  /** Others stand before it. `unrenewed`: all of those, if every one of them is to be taken over. */
  | {
      readonly state: 'behind'
      readonly claim: ThreadClaim
      readonly ahead: number
      readonly againMs: number
      readonly unrenewed: readonly ThreadClaim[]
      /** Nothing is in the way but the time that a takeover takes to be safe. */
      readonly cleanup: boolean
    }
  | { readonly state: 'first'; readonly claim: ThreadClaim }

/** What a claim's owner knows of it by GitHub's own answers: its comment, and when that was last edited. */
export type KnownClaim = Pick<ThreadClaim, 'comment' | 'updatedAt'>

/** Where a claim stands. A reading that is too old to show its last edit does not make it any older. */
export function verdictOn(read: IssueReading, own: KnownClaim, settleMs: number): QueueVerdict {
  const { comment } = own
  const shown = read.thread.claims.find((one) => one.comment === comment)
  if (shown === undefined) return { state: 'missing' }
  const claim = { ...shown, updatedAt: Math.max(shown.updatedAt, own.updatedAt) }
  if (claim.end !== undefined) return { state: 'ended', claim }
  if (hasExpired(claim, read.dateMs)) return { state: 'expired', claim }
  const before = read.thread.claims.filter((one) => one.comment < comment)
  const open = before.filter(({ end }) => end === undefined)
  const waits = before.map((one) => blocksForMs(one, read, settleMs)).filter((ms) => ms > 0)
  if (open.length === 0 && waits.length === 0) return { state: 'first', claim }
  const alive = open.filter((one) => !hasExpired(one, read.dateMs))
  // Only the first in line takes over: a dozen of them would each write the same comment.
  const unrenewed = open.every((one) => isUnrenewed(one, read, settleMs)) ? open : []
  return {
    state: 'behind',
    claim,
    ahead: Math.max(0, alive.length - 1),
    againMs: waits.length === 0 ? 0 : Math.min(...waits),
    unrenewed,
    cleanup: open.length === 0,
  }
}

/** The claim that holds, or may do so as soon as it asks. */
export function headOf(thread: Thread): ThreadClaim | undefined {
  return thread.claims.find(({ end }) => end === undefined)
}

/** Whether a lease is over for its owner, by GitHub's clock. */
export function hasExpired({ updatedAt, ttlMs }: Pick<ThreadClaim, 'updatedAt' | 'ttlMs'>, dateMs: number): boolean {
  return dateMs - updatedAt >= ttlMs + roundingMs
}

/** Whether a holder has been silent for so long, whatever a stale reading leaves out. */
export function isSilent(claim: ThreadClaim, read: IssueReading, forMs: number, settleMs: number): boolean {
  return read.dateMs - claim.updatedAt >= forMs + settleMs + roundingMs
}

/** Until when, as far as this reading tells, a claim keeps those behind it waiting. */
function blocksForMs(claim: ThreadClaim, read: IssueReading, settleMs: number): number {
  const { end, updatedAt, ttlMs } = claim
  if (end === undefined) return Math.max(1, updatedAt + ttlMs + settleMs + roundingMs - read.dateMs)
  if (end.how !== 'taken over' || end.cause !== 'expired') return 0
  // An edit that crossed the takeover may have told its owner that it still holds. Such an edit came less than a settle
  // time after the takeover, so a reading two of them after it shows it, and the lease it renewed has to run out.
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
 * How long until a claim that nobody stands before may take itself to hold: two looks, a settle time apart, and the second
 * at least that long after its comment was there.
 */
export function settlesInMs(firstSince: number, thereAt: number, begunAt: number, settleMs: number): number {
  return Math.max(firstSince, thereAt) + settleMs - begunAt
}
