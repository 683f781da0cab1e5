/**
 * The state of one claim in a reading of its issue. Pure: comments, GitHub's clock and the settle time in, a verdict out.
 *
 * Reads may be stale by less than `settleMs`. docs/decisions/060 argues why each step is still safe.
 */
import { roundingMs } from './comment-text.ts'
import { conflicts, mayHaveHeld, outranks, replaces, standsFrom } from './precedence.ts'
import { fenceAt, type Thread, type ThreadClaim } from './thread.ts'

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
  /** A claim that goes first came later, or was granted before it: its owner is to give up the place. */
  | { readonly state: 'overtaken'; readonly claim: ThreadClaim }
  /** It has given up its place. `mayEnter`: it may take a new one; else claims that go first are to take theirs before. */
  | {
      readonly state: 'out of line'
      readonly claim: ThreadClaim
      /** As the reading shows it: maybe with a place that its owner does not know of. */
      readonly shown: ThreadClaim
      readonly ahead: number
      readonly againMs: number
      readonly mayEnter: boolean
    }
  /** The reading shows another place than its owner knows. */
  | { readonly state: 'moved'; readonly claim: ThreadClaim }
  /** Another conversion, which came first, waits for the claim that this one replaces. */
  | { readonly state: 'deadlock'; readonly claim: ThreadClaim }

/** What the owner of a claim knows: its comment and the time of its last edit, from GitHub's replies, and what it has not written yet. */
export interface KnownClaim extends Pick<ThreadClaim, 'comment' | 'updatedAt'> {
  /** Its place, or that it has none. Default: what the reading shows. */
  readonly place?: number | 'none'
  readonly held?: boolean
  /** It ends those before it, and lets nobody go first. */
  readonly forces?: boolean
}

/** The state of a claim. If the reading is older than the claim's last edit, what its owner knows counts. */
export function verdictOn(read: IssueReading, own: KnownClaim, settleMs: number): QueueVerdict {
  const shown = read.thread.claims.find(({ comment }) => comment === own.comment)
  if (shown === undefined) return { state: 'missing' }
  const claim = { ...shown, place: placeOf(own, shown), updatedAt: Math.max(shown.updatedAt, own.updatedAt) }
  if (endsOwn(claim, shown, own)) return { state: 'ended', claim }
  // A grant by the place that a forced claim took is over; one by a later place is not.
  if (own.held === true && shown.displaced !== undefined && (claim.place ?? 0) < shown.displaced.comment) {
    return { state: 'ended', claim: { ...claim, end: shown.displaced } }
  }
  if (hasExpired(claim, read.dateMs)) return { state: 'expired', claim }
  if (own.held === true) return { state: 'first', claim }
  const replaced = read.thread.claims.find((other) => replaces(claim, other))
  // Without a lease there is nothing to convert.
  if (claim.replaced !== undefined && replaced === undefined) return { state: 'ended', claim }
  if (replaced !== undefined && (replaced.end !== undefined || hasExpired(replaced, read.dateMs))) {
    return { state: 'expired', claim }
  }
  const others = read.thread.claims.filter((other) => other !== shown && conflicts(other, claim))
  const urgent = own.forces === true ? [] : others.filter((other) => goesFirst(other, claim, read))
  if (claim.place === undefined) return { ...outOfLine(urgent, read, settleMs), claim, shown }
  if (claim.place !== shown.place) return { state: 'moved', claim: shown }
  const { place } = claim
  if (urgent.some((other) => (other.place ?? Infinity) > place)) return { state: 'overtaken', claim }
  // Its fence would be lower than that of a claim which may have been granted before it.
  if (others.some((other) => standsFrom(other) < place && fenceAt(other) > place && mayHaveHeld(other))) {
    if (claim.replaced === undefined) return { state: 'overtaken', claim }
  }
  const before = others.filter((other) => standsFrom(other) < place && !isKeptOut(other, replaced))
  const verdict = behind(claim, before, read, settleMs)
  if (verdict === undefined) return { state: 'first', claim }
  return others.some((other) => isFirstConversion(other, claim, read)) ? { state: 'deadlock', claim } : verdict
}

function placeOf({ place }: KnownClaim, shown: ThreadClaim): number | undefined {
  if (place === undefined) return shown.place
  return place === 'none' ? undefined : place
}

/** Whether a reading ends a claim for its owner. That a later claim was held ends no claim that is not at the place it shows. */
function endsOwn({ end, place }: ThreadClaim, shown: ThreadClaim, { held }: KnownClaim): boolean {
  return end !== undefined && (end.how !== 'superseded' || held === true || place === shown.place)
}

/** Whether a waiting claim is to go before this one. A claim whose lease is over goes nowhere. */
function goesFirst(other: ThreadClaim, claim: ThreadClaim, read: IssueReading): boolean {
  if (other.end !== undefined || other.record?.heldSince !== undefined) return false
  if (!other.yields || hasExpired(other, read.dateMs)) return false
  return outranks(other, claim)
}

/** Whether the lease that a conversion replaces keeps a claim from being granted, until the conversion itself does. */
function isKeptOut(other: ThreadClaim, replaced: ThreadClaim | undefined): boolean {
  // Version 1 does not know where conversions stand.
  if (replaced === undefined || !other.yields || !conflicts(other, replaced)) return false
  return standsFrom(other) > standsFrom(replaced)
}

function isFirstConversion(other: ThreadClaim, claim: ThreadClaim, read: IssueReading): boolean {
  if (claim.replaced === undefined || other.replaced === undefined || other.comment > claim.comment) return false
  const isWaiting = other.end === undefined && other.record?.heldSince === undefined && !hasExpired(other, read.dateMs)
  return isWaiting && read.thread.claims.some((held) => replaces(other, held) && held.end === undefined)
}

function outOfLine(
  urgent: readonly ThreadClaim[],
  read: IssueReading,
  settleMs: number,
): Omit<Extract<QueueVerdict, { state: 'out of line' }>, 'claim' | 'shown'> {
  const waits = urgent.filter(({ place }) => place === undefined)
  const againMs = soonest(waits, read, settleMs)
  return { state: 'out of line', ahead: urgent.length, againMs, mayEnter: waits.length === 0 }
}

/** The verdict on a claim behind others; undefined if none of them is in its way. */
function behind(
  claim: ThreadClaim,
  before: readonly ThreadClaim[],
  read: IssueReading,
  settleMs: number,
): QueueVerdict | undefined {
  const open = before.filter(({ end }) => end === undefined)
  const againMs = soonest(before, read, settleMs)
  if (open.length === 0 && againMs === 0) return undefined
  const isLive = (other: ThreadClaim): boolean => !hasExpired(other, read.dateMs)
  const holders = new Set(holdersOf(read.thread, isLive))
  // Those that do not go first will step back.
  const waiting = open.filter(
    (other) => isLive(other) && !holders.has(other) && (!other.yields || outranks(other, claim)),
  )
  // Only the first live waiter takes over: otherwise every waiter would write the same comment.
  const unrenewed = open.every((earlier) => isUnrenewed(earlier, read, settleMs)) ? open : []
  return {
    state: 'behind',
    claim,
    ahead: waiting.length,
    againMs,
    unrenewed: unrenewed.toSorted((first, second) => standsFrom(first) - standsFrom(second)),
    cleanup: open.length === 0,
  }
}

/** When the first of these claims may no longer be in the way. 0: none of them is. */
function soonest(claims: readonly ThreadClaim[], read: IssueReading, settleMs: number): number {
  const waits = claims.map((claim) => blocksForMs(claim, read, settleMs)).filter((ms) => ms > 0)
  return waits.length === 0 ? 0 : waits.reduce((first, wait) => Math.min(first, wait))
}

/** The claims that hold the lock, or will once their owners ask: those that no open claim before them excludes. Only `counted` claims count. */
export function holdersOf({ claims }: Thread, counted: (claim: ThreadClaim) => boolean = () => true): ThreadClaim[] {
  const open = claims
    .filter((claim) => claim.end === undefined && claim.place !== undefined && counted(claim))
    .toSorted((first, second) => standsFrom(first) - standsFrom(second))
  return open.filter((claim, index) => {
    if (claim.record?.heldSince !== undefined) return true
    // A conversion holds once it says so, or its owner has ended the claim that it replaces.
    if (open.some((other) => replaces(claim, other))) return false
    return !open.slice(0, index).some((earlier) => conflicts(earlier, claim))
  })
}

/** The first of the claims that hold the lock, or will once their owners ask. */
export function headOf(thread: Thread): ThreadClaim | undefined {
  return holdersOf(thread)[0]
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
