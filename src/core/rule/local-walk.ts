import { compareRank, type ClaimRecord } from './claim-record.ts'
import type { KeyDraft } from './draft.ts'
import { SortedList } from './sorted-list.ts'
import { strictnessOf, type Lane, type WaiterCrowd } from './waiters.ts'

/**
 * The waiters that a walk along the whole queue would decide about, found without reading the others. A waiter can only do something else
 * than wait on if it asks now, if its time is over or its lease must be cut, if it converts, or if it overlaps a claim that has left or been
 * granted. Of the waiters of a lane, who want the same, only the first can be granted: while it waits, so do the others.
 *
 * The walk ends where the whole walk ends: at the first waiter that holds up everybody, called the stopper.
 */
export class LocalWalk {
  readonly #draft: KeyDraft
  readonly #crowd: WaiterCrowd
  readonly #subjectId: string | undefined
  /** Waiters to decide about, all behind the current one. */
  readonly #candidates = new SortedList<ClaimRecord>(compareRank)
  /** The ids of all that have ever been candidates. */
  readonly #known = new Set<string>()
  /** The ids of waiters that have left. */
  readonly #gone = new Set<string>()
  /** The first waiter of a lane that has not left. */
  readonly #heads = new Map<string, { readonly rest: Iterator<ClaimRecord>; first: ClaimRecord | undefined }>()
  /** A claim on the whole key has left or been granted: then all waiters behind `from` are candidates, read as they are needed. */
  #everybody:
    | { readonly from: ClaimRecord; readonly rest: Iterator<ClaimRecord>; next: ClaimRecord | undefined }
    | undefined
  #leftSeen = 0
  #touchedSeen = 0

  constructor(draft: KeyDraft, crowd: WaiterCrowd) {
    this.#draft = draft
    this.#crowd = crowd
    this.#subjectId = draft.subject?.claim.id
  }

  /** Each candidate, in the order of rank. Whoever iterates decides about it before it asks for the next. */
  *candidates(): Iterable<ClaimRecord> {
    const { subject } = this.#draft
    let current: ClaimRecord | undefined
    this.#noteLeft()
    if (subject?.state === 'waiting') this.#candidates.add(subject)
    for (const conversion of this.#crowd.conversions()) this.#add(conversion)
    // If the stopper leaves, all behind it become candidates.
    const stopper = this.#head(this.#crowd.wholeKey('strict'))
    if (stopper !== undefined) this.#add(stopper)
    for (const waiter of this.#crowd.due(this.#draft.now, stopper)) this.#add(waiter)
    for (;;) {
      this.#noteLeft()
      this.#noteTouched(current)
      current = this.#next()
      if (current === undefined) return
      yield current
    }
  }

  /** Whether a waiter ahead that this walk did not have to decide about holds up the current one: see `standsInTheWay`. */
  holdsUp(waiter: ClaimRecord): boolean {
    const { range } = waiter.claim
    const isStrict = strictnessOf(waiter.claim) === 'strict'
    if (range === undefined)
      return isStrict ? this.#isAhead(this.#everyLane(), waiter) : this.#isAhead(this.#crowd.strictOnRanges(), waiter)
    for (const lane of this.#crowd.overlapping(range, 'strict')) if (this.#isAhead(lane, waiter)) return true
    // A strict waiter for the whole key that is ahead has ended the walk.
    if (!isStrict) return false
    for (const lane of this.#crowd.overlapping(range, 'soft')) if (this.#isAhead(lane, waiter)) return true
    return this.#isAhead(this.#crowd.wholeKey('soft'), waiter)
  }

  #noteLeft(): void {
    const { left } = this.#draft
    for (; this.#leftSeen < left.length; this.#leftSeen += 1)
      this.#gone.add((left[this.#leftSeen] as ClaimRecord).claim.id)
  }

  /** Adds those who may move because of what has changed since the last call, behind the current waiter. */
  #noteTouched(current: ClaimRecord | undefined): void {
    const { touched } = this.#draft
    for (; this.#touchedSeen < touched.length; this.#touchedSeen += 1) {
      const record = touched[this.#touchedSeen] as ClaimRecord
      // A waiter that has left held up only those behind it.
      const isBehind = record.state === 'waiting' && (current === undefined || compareRank(record, current) > 0)
      const from = isBehind ? record : current
      const { range } = record.claim
      if (range === undefined) this.#addEverybody(from)
      else {
        for (const lane of this.#crowd.overlapping(range, 'strict')) this.#addHead(lane, from)
        for (const lane of this.#crowd.overlapping(range, 'soft')) this.#addHead(lane, from)
        this.#addHead(this.#crowd.wholeKey('soft'), from)
      }
    }
  }

  #addHead(lane: Lane, behind: ClaimRecord | undefined): void {
    const head = this.#head(lane)
    if (head !== undefined && (behind === undefined || compareRank(head, behind) > 0)) this.#add(head)
  }

  #add(waiter: ClaimRecord): void {
    if (this.#isGone(waiter) || this.#known.has(waiter.claim.id)) return
    this.#known.add(waiter.claim.id)
    this.#candidates.add(waiter)
  }

  #addEverybody(from: ClaimRecord | undefined): void {
    // A claim that held the whole key before the walk began: then `promote` reads the whole queue.
    if (from === undefined) return
    if (this.#everybody !== undefined && compareRank(this.#everybody.from, from) <= 0) return
    const rest = this.#crowd.behind(from)[Symbol.iterator]()
    this.#everybody = { from, rest, next: nextOf(rest) }
  }

  #next(): ClaimRecord | undefined {
    const candidate = this.#candidates.first()
    const waiter = this.#nextOfEverybody()
    if (waiter !== undefined && (candidate === undefined || compareRank(waiter, candidate) < 0)) {
      this.#known.add(waiter.claim.id)
      return waiter
    }
    if (candidate !== undefined) this.#candidates.remove(candidate)
    return candidate
  }

  #nextOfEverybody(): ClaimRecord | undefined {
    const everybody = this.#everybody
    if (everybody === undefined) return undefined
    while (everybody.next !== undefined && (this.#isGone(everybody.next) || this.#known.has(everybody.next.claim.id))) {
      everybody.next = nextOf(everybody.rest)
    }
    return everybody.next
  }

  #isAhead(lane: Lane, waiter: ClaimRecord): boolean {
    const head = this.#head(lane)
    return head !== undefined && compareRank(head, waiter) < 0
  }

  #head(lane: Lane): ClaimRecord | undefined {
    let head = this.#heads.get(lane.name)
    if (head === undefined) {
      const rest = lane.waiters()[Symbol.iterator]()
      this.#heads.set(lane.name, (head = { rest, first: nextOf(rest) }))
    }
    while (head.first !== undefined && this.#isGone(head.first)) head.first = nextOf(head.rest)
    return head.first
  }

  #everyLane(): Lane {
    return { name: 'everybody', waiters: () => this.#crowd.behind(undefined) }
  }

  /** The asking claim is a candidate by itself, not as it is stored. */
  #isGone({ claim }: ClaimRecord): boolean {
    return claim.id === this.#subjectId || this.#gone.has(claim.id)
  }
}

function nextOf(records: Iterator<ClaimRecord>): ClaimRecord | undefined {
  const { value, done } = records.next()
  return done === true ? undefined : value
}
