import { compareRank, type ClaimRecord } from './claim-record.ts'
import type { Range } from '../contract/driver.ts'
import { RangeIndex } from './range-index.ts'
import { placeIn, SortedList } from './sorted-list.ts'
import { strictnessOf, type Lane, type Strictness, type WaiterCrowd } from './waiters.ts'

/** The waiters of one key in memory, found by rank, by range and by end. */
export class WaiterIndex implements WaiterCrowd {
  readonly #behind: WaiterCrowd['behind']
  readonly #conversions = new MemoryLane('conversions', undefined)
  readonly #whole = { strict: new MemoryLane('strict', undefined), soft: new MemoryLane('soft', undefined) }
  /** By name; those on ranges only. */
  readonly #lanes = new Map<string, MemoryLane>()
  readonly #onRanges = { strict: laneRanges(), soft: laneRanges() }
  readonly #strictOnRanges = new SortedList<ClaimRecord>(compareRank)
  readonly #byEnd = new SortedList<ClaimRecord>(compareEnds)
  /** No lease began later, by the clock of whoever wrote it: a clock below this was set back. */
  #lastStart = -Infinity
  /** A request has found the clock set back. */
  #wasSetBack = false

  /** `behind`: all waiters in the order of their rank, from behind this one on. */
  constructor(records: Iterable<ClaimRecord>, behind: WaiterCrowd['behind']) {
    this.#behind = behind
    for (const record of records) this.put(record)
  }

  /** Adds a waiter, or puts it in the place of the record that its id had before. */
  put(record: ClaimRecord, before?: ClaimRecord): void {
    if (before !== undefined) this.#byEnd.remove(before)
    this.#byEnd.add(record)
    this.#lastStart = Math.max(this.#lastStart, startOf(record))
    const { claim } = record
    const lane = this.#laneOf(record)
    lane.put(record, before)
    if (claim.replaces !== undefined || claim.range === undefined) return
    const strictness = strictnessOf(claim)
    if (strictness === 'strict') {
      if (before !== undefined) this.#strictOnRanges.remove(before)
      this.#strictOnRanges.add(record)
    }
    if (lane.length > 1 || before !== undefined) return
    this.#lanes.set(lane.name, lane)
    this.#onRanges[strictness].add(lane)
  }

  delete(record: ClaimRecord): void {
    const { claim } = record
    this.#byEnd.remove(record)
    const lane = this.#laneOf(record)
    lane.delete(record)
    if (claim.replaces !== undefined || claim.range === undefined) return
    const strictness = strictnessOf(claim)
    if (strictness === 'strict') this.#strictOnRanges.remove(record)
    if (lane.length > 0) return
    this.#lanes.delete(lane.name)
    this.#onRanges[strictness].remove(lane)
  }

  /** After a request was carried out: see `HolderIndex`. */
  settle(): void {
    if (!this.#wasSetBack) return
    this.#wasSetBack = false
    this.#lastStart = -Infinity
    for (const record of this.#byEnd.all()) this.#lastStart = Math.max(this.#lastStart, startOf(record))
  }

  conversions(): Iterable<ClaimRecord> {
    return this.#conversions.waiters()
  }

  behind(record: ClaimRecord | undefined): Iterable<ClaimRecord> {
    return this.#behind(record)
  }

  *due(now: number, before: ClaimRecord | undefined): Iterable<ClaimRecord> {
    const isSetBack = now < this.#lastStart
    if (isSetBack) this.#wasSetBack = true
    for (const record of this.#byEnd.all()) {
      if (!isSetBack && now < endOf(record)) return
      if (before === undefined || compareRank(record, before) < 0) yield record
    }
  }

  wholeKey(strictness: Strictness): Lane {
    return this.#whole[strictness]
  }

  overlapping(range: Range, strictness: Strictness): Iterable<Lane> {
    return this.#onRanges[strictness].overlapping(range)
  }

  strictOnRanges(): Lane {
    return { name: 'strict on ranges', waiters: () => this.#strictOnRanges.all() }
  }

  /** The lane of a waiter, or one for it alone that is not in the index yet. */
  #laneOf({ claim }: ClaimRecord): MemoryLane {
    const { range } = claim
    if (claim.replaces !== undefined) return this.#conversions
    const strictness = strictnessOf(claim)
    if (range === undefined) return this.#whole[strictness]
    const name = `${strictness} ${range.start} ${range.end}`
    return this.#lanes.get(name) ?? new MemoryLane(name, range)
  }
}

/** A lane, as the list of its waiters. */
class MemoryLane implements Lane {
  readonly name: string
  readonly range: Range | undefined
  readonly #waiters: ClaimRecord[] = []

  constructor(name: string, range: Range | undefined) {
    this.name = name
    this.range = range
  }

  get length(): number {
    return this.#waiters.length
  }

  waiters(): Iterable<ClaimRecord> {
    return this.#waiters
  }

  put(record: ClaimRecord, before: ClaimRecord | undefined): void {
    this.#waiters.splice(this.#place(record), before === undefined ? 0 : 1, record)
  }

  delete(record: ClaimRecord): void {
    this.#waiters.splice(this.#place(record), 1)
  }

  /** A waiter's rank never changes, and no two waiters have the same. */
  #place(record: ClaimRecord): number {
    return placeIn(this.#waiters, (waiter) => compareRank(waiter, record) < 0)
  }
}

function laneRanges(): RangeIndex<MemoryLane> {
  return new RangeIndex<MemoryLane>(
    ({ range }) => range,
    (first, second) => (first.range?.end ?? 0) - (second.range?.end ?? 0),
  )
}

function compareEnds(first: ClaimRecord, second: ClaimRecord): number {
  return endOf(first) - endOf(second) || first.order - second.order
}

/** A waiter that died is over at once. */
function endOf({ died, expiresAt }: ClaimRecord): number {
  return died === true ? -Infinity : expiresAt
}

/** When a lease began that has not been cut. */
function startOf({ expiresAt, ttlMs }: ClaimRecord): number {
  return expiresAt - ttlMs
}
