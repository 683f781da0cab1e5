import type { ClaimRecord } from './claim-record.ts'
import type { ClaimShape } from './conflict.ts'
import { endOf, Tallies, type Crowd, type Tally } from './holders.ts'
import { claimRanges } from './range-index.ts'
import { SortedList } from './sorted-list.ts'

/** The holders of one key in memory, found by id, by end and by range. */
export class HolderIndex implements Crowd {
  /** In the order of their grants. */
  readonly #byId = new Map<string, ClaimRecord>()
  readonly #byEnd = new SortedList<ClaimRecord>(compareEnds)
  readonly #tallies = new Tallies()
  readonly #ranges = claimRanges()
  /** Those that hold the whole key. */
  readonly #whole = new Map<string, ClaimRecord>()
  /** No lease began later, by the clock of whoever wrote it: a clock below this was set back. */
  #lastStart = -Infinity
  /** A request has found the clock set back. */
  #wasSetBack = false

  constructor(records: Iterable<ClaimRecord> = []) {
    for (const record of records) this.put(record)
  }

  /** Adds a holder, or replaces the holder with its id. */
  put(record: ClaimRecord): void {
    const { id, range } = record.claim
    const stored = this.#byId.get(id)
    if (stored === undefined) this.#tallies.count(record.claim, 1)
    else this.#leaveIndexes(stored)
    this.#byId.set(id, record)
    this.#byEnd.add(record)
    this.#lastStart = Math.max(this.#lastStart, startOf(record))
    if (range === undefined) this.#whole.set(id, record)
    else this.#ranges.add(record)
  }

  delete(id: string): void {
    const stored = this.#byId.get(id)
    if (stored === undefined) return
    this.#byId.delete(id)
    this.#tallies.count(stored.claim, -1)
    this.#leaveIndexes(stored)
  }

  /** After a request was carried out: the leases that a clock set back had stretched are cut, and need not be looked for again. */
  settle(): void {
    if (!this.#wasSetBack) return
    this.#wasSetBack = false
    this.#lastStart = -Infinity
    for (const record of this.#byId.values()) this.#lastStart = Math.max(this.#lastStart, startOf(record))
  }

  find(id: string): ClaimRecord | undefined {
    return this.#byId.get(id)
  }

  due(now: number): Iterable<ClaimRecord> {
    if (now < this.#lastStart) {
      this.#wasSetBack = true
      return this.#byId.values()
    }
    const due: ClaimRecord[] = []
    for (const record of this.#byEnd.all()) {
      if (now < endOf(record)) break
      due.push(record)
    }
    return due
  }

  byEnd(): Iterable<ClaimRecord> {
    return this.#byEnd.all()
  }

  tallies(): readonly Tally[] {
    return this.#tallies.all()
  }

  *overlapping({ range }: Pick<ClaimShape, 'range'>): Iterable<ClaimRecord> {
    if (range === undefined) return yield* this.#byId.values()
    yield* this.#whole.values()
    yield* this.#ranges.overlapping(range)
  }

  #leaveIndexes(record: ClaimRecord): void {
    const { id, range } = record.claim
    this.#byEnd.remove(record)
    if (range === undefined) this.#whole.delete(id)
    else this.#ranges.remove(record)
  }
}

/** By end, then by fence: the claims of a batch end together, and would have to be searched one by one. */
function compareEnds(first: ClaimRecord, second: ClaimRecord): number {
  return endOf(first) - endOf(second) || first.fence - second.fence
}

/** When a lease began that has not been cut. That of a holder that died is cut whenever it ends in the future. */
function startOf({ died, expiresAt, ttlMs }: ClaimRecord): number {
  return died === true ? expiresAt : expiresAt - ttlMs
}
