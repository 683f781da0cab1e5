import { compareRank, type ClaimRecord, type Ended } from './claim-record.ts'
import type { KeyView, Decision } from './admission.ts'

/** An empty list, shared and never changed: the first record gets a list of its own. */
const none: never[] = []

/** The last fence minted: of one key, or of all keys of a store that counts them together. */
export interface FenceCounter {
  last: number
}

/** A key's claims held in memory: the view for stores that read a key whole. */
export class KeyState implements KeyView {
  /** The store's wall clock in microseconds, set by the store before each request. */
  fenceFloor = 0
  ended: Ended | undefined
  /** Nearly always none or one, which is then kept without a list. */
  #holders: ClaimRecord | readonly ClaimRecord[] | undefined
  /** In the order of {@link compareRank}. */
  #waiters: ClaimRecord[] = none
  #waitersById: Map<string, ClaimRecord> | undefined
  #lastOrder = 0

  readonly #fences: FenceCounter

  constructor(fences: FenceCounter = { last: 0 }) {
    this.#fences = fences
  }

  get lastFence(): number {
    return this.#fences.last
  }

  /** No claim holds or waits, and no unclean end is remembered. */
  get idle(): boolean {
    return this.#holders === undefined && this.#waiters.length === 0 && this.ended === undefined
  }

  holders(): readonly ClaimRecord[] {
    const holders = this.#holders
    if (holders === undefined) return none
    return 'claim' in holders ? [holders] : holders
  }

  waiters(): readonly ClaimRecord[] {
    return this.#waiters
  }

  find(id: string): ClaimRecord | undefined {
    for (const holder of this.holders()) if (holder.claim.id === id) return holder
    return this.#waitersById?.get(id)
  }

  ahead(record: ClaimRecord): number {
    return this.#place(record)
  }

  nextOrder(): number {
    return this.#lastOrder + 1
  }

  /** Carries out what `admit` decided. */
  apply(decision: Decision): void {
    this.#fences.last = decision.lastFence
    this.ended = decision.ended
    for (const { before, after } of decision.changes) {
      if (before !== undefined && before.state !== after?.state) this.#remove(before)
      if (after !== undefined) this.put(after)
    }
    if (this.#waiters.length === 0 && this.#holders === undefined) this.#lastOrder = 0
  }

  /** Adds a record, or replaces the record with its id and state. */
  put(record: ClaimRecord): void {
    const { id } = record.claim
    this.#lastOrder = Math.max(this.#lastOrder, record.order)
    if (record.state === 'held') {
      const holders = this.holders()
      const at = placeOf(id, holders)
      if (holders.length === 0) this.#holders = record
      else this.#keep(at < 0 ? [...holders, record] : holders.with(at, record))
      return
    }
    if (this.#waitersById === undefined) {
      this.#waitersById = new Map()
      this.#waiters = []
    }
    const at = this.#place(record)
    this.#waiters.splice(at, this.#waitersById.has(id) ? 1 : 0, record)
    this.#waitersById.set(id, record)
  }

  #remove(record: ClaimRecord): void {
    const { id } = record.claim
    if (record.state === 'held') {
      const holders = this.holders()
      const at = placeOf(id, holders)
      if (at >= 0) this.#keep(holders.toSpliced(at, 1))
      return
    }
    if (this.#waitersById?.delete(id)) this.#waiters.splice(this.#place(record), 1)
  }

  #keep(holders: readonly ClaimRecord[]): void {
    this.#holders = holders.length > 1 ? holders : holders[0]
  }

  /** The index of a record among the waiters, or where it would be inserted. Its rank never changes while it waits. */
  #place(record: ClaimRecord): number {
    let low = 0
    let high = this.#waiters.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (compareRank(this.#waiters[middle] as ClaimRecord, record) < 0) low = middle + 1
      else high = middle
    }
    return low
  }
}

function placeOf(id: string, records: readonly ClaimRecord[]): number {
  for (let at = 0; at < records.length; at += 1) if (records[at]?.claim.id === id) return at
  return -1
}
