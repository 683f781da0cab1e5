import type { ClaimRecord } from '../../core/rule/claim-record.ts'
import { overlaps, type ClaimShape } from '../../core/rule/conflict.ts'
import type { Crowd, Tally } from '../../core/rule/holders.ts'
import { longestOf } from '../../core/rule/range-index.ts'
import { tallyOf } from './crowd-shape.ts'
import type { SqliteRow } from './database.ts'
import type { RowObserver } from './row-observer.ts'
import type { Statements } from './statements.ts'

/** Holders in the order of their ends are read in pages of this size. */
const endsAtOnce = 8

/** The many holders of a key in the file, each read only if a request concerns it. */
export class SqliteCrowd implements Crowd {
  readonly #key: string
  readonly #statements: Statements
  readonly #see: (row: SqliteRow) => ClaimRecord
  /** Stamps of processes that have ended. */
  readonly #dead: readonly string[]

  private constructor(
    key: string,
    statements: Statements,
    see: (row: SqliteRow) => ClaimRecord,
    dead: readonly string[],
  ) {
    this.#key = key
    this.#statements = statements
    this.#see = see
    this.#dead = dead
  }

  /** Undefined if a holder is of another boot: its end cannot be compared with the others' in the file. */
  static of(
    key: string,
    statements: Statements,
    observer: RowObserver,
    see: (row: SqliteRow) => ClaimRecord,
  ): SqliteCrowd | undefined {
    const dead: string[] = []
    let stamp = statements.holderStampAfter.get(key, '')?.['stamp'] ?? null
    while (typeof stamp === 'string') {
      if (observer.isForeign({ stamp })) return undefined
      if (observer.hasDied(stamp)) dead.push(stamp)
      stamp = statements.holderStampAfter.get(key, stamp)?.['stamp'] ?? null
    }
    return new SqliteCrowd(key, statements, see, dead)
  }

  find(id: string): ClaimRecord | undefined {
    const row = this.#statements.holderById.get(this.#key, id)
    return row === undefined ? undefined : this.#see(row)
  }

  due(now: number): Iterable<ClaimRecord> {
    const { holdersOverBy, holdersStartedAfter, holdersOfStamp } = this.#statements
    const rows = [
      ...holdersOverBy.all(this.#key, now),
      ...holdersStartedAfter.all(this.#key, now),
      ...this.#dead.flatMap((stamp) => holdersOfStamp.all(this.#key, stamp)),
    ]
    return new Map(rows.map((row) => [row['id'], this.#see(row)])).values()
  }

  *byEnd(): Iterable<ClaimRecord> {
    for (let offset = 0; ; offset += endsAtOnce) {
      const page = this.#statements.holdersByEnd.all(this.#key, endsAtOnce, offset)
      for (const row of page) yield this.#see(row)
      if (page.length < endsAtOnce) return
    }
  }

  tallies(): readonly Tally[] {
    return this.#statements.talliesOf
      .all(this.#key)
      .map((row) => tallyOf(row['shape'] as string, row['holders'] as number))
  }

  *overlapping({ range }: Pick<ClaimShape, 'range'>): Iterable<ClaimRecord> {
    const statements = this.#statements
    const whole = range === undefined ? statements.holdersOf : statements.wholeKeyHolders
    for (const row of whole.all(this.#key)) yield this.#see(row)
    if (range === undefined) return
    let sizeClass = statements.rangeClassAfter.get(this.#key, -1)?.['class'] ?? null
    while (typeof sizeClass === 'number') {
      const from = range.start - longestOf(sizeClass)
      for (const row of statements.holdersInWindow.all(this.#key, sizeClass, from, range.end)) {
        const record = this.#see(row)
        if (overlaps(record.claim, { range })) yield record
      }
      sizeClass = statements.rangeClassAfter.get(this.#key, sizeClass)?.['class'] ?? null
    }
  }
}
