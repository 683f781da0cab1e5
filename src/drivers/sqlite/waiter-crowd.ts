import type { ClaimRecord } from '../../core/rule/claim-record.ts'
import type { Range } from '../../core/contract/driver.ts'
import { overlaps } from '../../core/rule/conflict.ts'
import { longestOf } from '../../core/rule/range-index.ts'
import type { Lane, Strictness, WaiterCrowd } from '../../core/rule/waiters.ts'
import { bandOf, conversionBandsEnd } from './claim-row.ts'
import type { SqliteRow } from './database.ts'
import type { RowObserver } from './row-observer.ts'
import type { Statements } from './statements.ts'

/** A waiter's place in the queue. */
interface Place {
  readonly band: number
  readonly arrival: number
}

const beforeTheFirst: Place = { band: -1, arrival: -1 }
const behindConversions: Place = { band: conversionBandsEnd, arrival: -1 }
const behindTheLast: Place = { band: Number.MAX_SAFE_INTEGER, arrival: Number.MAX_SAFE_INTEGER }

/** Waiters behind the first are read in pages that grow. */
const firstPage = 4
const pageGrowth = 8
const pageMax = 512

/** The waiters behind a place, read as they are asked for. `size`: of the first page. */
export function* readWaiters(
  pageAfter: (band: number, arrival: number, size: number) => readonly SqliteRow[],
  after: Place,
  see: (row: SqliteRow) => ClaimRecord,
  size = firstPage,
): Iterable<ClaimRecord> {
  let { band, arrival } = after
  for (let wanted = size; ; wanted = Math.min(wanted * pageGrowth, pageMax)) {
    const page = pageAfter(band, arrival, wanted)
    for (const row of page) yield see(row)
    const last = page.at(-1)
    if (last === undefined || page.length < wanted) return
    ;({ band, arrival } = placeOf(last))
  }
}

/** The waiters of a key on which many wait for ranges, each read only if a request concerns it. */
export class SqliteWaiterCrowd implements WaiterCrowd {
  readonly #key: string
  readonly #statements: Statements
  readonly #observer: RowObserver
  readonly #see: (row: SqliteRow) => ClaimRecord
  /** Stamps of processes that have ended. */
  readonly #dead: readonly string[]
  /** What `overlapping` found, by range. Nothing changes while a request is decided. */
  readonly #found = new Map<string, readonly Lane[]>()

  private constructor(
    key: string,
    statements: Statements,
    observer: RowObserver,
    see: (row: SqliteRow) => ClaimRecord,
    dead: readonly string[],
  ) {
    this.#key = key
    this.#statements = statements
    this.#observer = observer
    this.#see = see
    this.#dead = dead
  }

  /** Undefined if a waiter for a range is of another boot: its end cannot be compared with the others' in the file. */
  static of(
    key: string,
    statements: Statements,
    observer: RowObserver,
    see: (row: SqliteRow) => ClaimRecord,
  ): SqliteWaiterCrowd | undefined {
    const stamps = statements.waiterStamps.all(key).map((row) => row['stamp'] as string)
    if (stamps.some((stamp) => observer.isForeign({ stamp }))) return undefined
    const dead = stamps.filter((stamp) => observer.hasDied(stamp))
    return new SqliteWaiterCrowd(key, statements, observer, see, dead)
  }

  conversions(): Iterable<ClaimRecord> {
    return this.#statements.waiterConversions.all(this.#key, conversionBandsEnd).map((row) => this.#see(row))
  }

  behind(record: ClaimRecord | undefined): Iterable<ClaimRecord> {
    const page = (band: number, arrival: number, size: number) =>
      this.#statements.waitersAfter.all(this.#key, band, arrival, size)
    return readWaiters(page, rankOf(record) ?? beforeTheFirst, this.#see)
  }

  *due(now: number, before: ClaimRecord | undefined): Iterable<ClaimRecord> {
    const { rangedWaitersDue, rangedWaitersOfStamp, softWaitersToCheck } = this.#statements
    const { band, arrival } = rankOf(before) ?? behindTheLast
    const key = this.#key
    for (const row of rangedWaitersDue.all(key, band, arrival, now)) yield this.#see(row)
    for (const stamp of this.#dead) {
      for (const row of rangedWaitersOfStamp.all(key, band, arrival, stamp)) yield this.#see(row)
    }
    for (const row of softWaitersToCheck.all(key, band, arrival, now, this.#observer.ownStamp)) {
      if (this.#mayBeOver(row, now)) yield this.#see(row)
    }
  }

  /** What the file cannot tell of a waiter of another driver. */
  #mayBeOver(row: SqliteRow, now: number): boolean {
    const stamp = row['stamp'] as string
    const expiresAt = row['expires_at'] as number
    if (expiresAt <= now || expiresAt - (row['ttl_ms'] as number) > now) return true
    return this.#observer.isForeign({ stamp }) || (row['detached'] === 0 && this.#observer.hasDied(stamp))
  }

  wholeKey(strictness: Strictness): Lane {
    const soft = softValue(strictness)
    return this.#lane(`${soft} whole`, (band, arrival, size) =>
      this.#statements.wholeKeyWaitersAfter.all(this.#key, soft, band, arrival, size),
    )
  }

  strictOnRanges(): Lane {
    return this.#lane('strict on ranges', (band, arrival, size) =>
      this.#statements.strictRangedWaitersAfter.all(this.#key, band, arrival, size),
    )
  }

  #lane(name: string, page: (band: number, arrival: number, size: number) => readonly SqliteRow[]): Lane {
    return { name, waiters: () => readWaiters(page, behindConversions, this.#see, 1) }
  }

  overlapping(range: Range, strictness: Strictness): readonly Lane[] {
    const soft = softValue(strictness)
    const name = `${soft} ${range.start} ${range.end}`
    let lanes = this.#found.get(name)
    if (lanes === undefined) this.#found.set(name, (lanes = [...this.#overlapping(range, soft)]))
    return lanes
  }

  *#overlapping(range: Range, soft: number): Iterable<Lane> {
    const { waiterRangeClasses, nextLane, laneWaitersAfter } = this.#statements
    const key = this.#key
    for (const row of waiterRangeClasses.all(key, soft)) {
      const sizeClass = row['class'] as number
      let start = range.start - longestOf(sizeClass)
      let end = Number.MAX_SAFE_INTEGER
      for (;;) {
        const first = nextLane.get(key, soft, sizeClass, start, end, range.end, conversionBandsEnd)
        if (first === undefined) break
        const found = { start: first['range_start'] as number, end: first['range_end'] as number }
        ;({ start, end } = found)
        if (overlaps({ range: found }, { range })) {
          yield new SqliteLane(`${soft} ${start} ${end}`, first, this.#see, (band, arrival, size) =>
            laneWaitersAfter.all(key, soft, sizeClass, found.start, found.end, band, arrival, size),
          )
        }
      }
    }
  }
}

/** The waiters for one range, of which the first was read already. */
class SqliteLane implements Lane {
  readonly name: string
  readonly #first: SqliteRow
  readonly #see: (row: SqliteRow) => ClaimRecord
  readonly #page: (band: number, arrival: number, size: number) => readonly SqliteRow[]

  constructor(
    name: string,
    first: SqliteRow,
    see: (row: SqliteRow) => ClaimRecord,
    page: (band: number, arrival: number, size: number) => readonly SqliteRow[],
  ) {
    this.name = name
    this.#first = first
    this.#see = see
    this.#page = page
  }

  *waiters(): Iterable<ClaimRecord> {
    yield this.#see(this.#first)
    yield* readWaiters(this.#page, placeOf(this.#first), this.#see)
  }
}

function softValue(strictness: Strictness): number {
  return strictness === 'soft' ? 1 : 0
}

function placeOf(row: SqliteRow): Place {
  return { band: row['band'] as number, arrival: row['arrival'] as number }
}

function rankOf(record: ClaimRecord | undefined): Place | undefined {
  return record === undefined ? undefined : { band: bandOf(record.claim), arrival: record.order }
}
