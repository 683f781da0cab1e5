import { compareRank, type ClaimRecord, type Ended } from './claim-record.ts'
import type { KeyView, Verdict } from './admission.ts'

/** What a key has no claims in. Never changed: the first claim gets a list of its own. */
const none: never[] = []

/** A key's claims held in memory: the view for stores that read a key whole. */
export class KeyState implements KeyView {
  lastFence: number
  /** Set by the store before each step: the wall clock in microseconds while `lastFence` is not certain. */
  fenceFloor = 0
  ended: Ended | undefined
  #holders: ClaimRecord[] = none
  /** In the order of promotion. */
  #waiters: ClaimRecord[] = none
  #waitersById: Map<string, ClaimRecord> | undefined
  #lastOrder = 0

  constructor(lastFence = 0) {
    this.lastFence = lastFence
  }

  /** Nobody holds or waits, and no ending is remembered. */
  get idle(): boolean {
    return this.#holders.length === 0 && this.#waiters.length === 0 && this.ended === undefined
  }

  holders(): readonly ClaimRecord[] {
    return this.#holders
  }

  waiters(): readonly ClaimRecord[] {
    return this.#waiters
  }

  find(id: string): ClaimRecord | undefined {
    for (const holder of this.#holders) if (holder.claim.id === id) return holder
    return this.#waitersById?.get(id)
  }

  ahead(record: ClaimRecord): number {
    return this.#place(record)
  }

  nextOrder(): number {
    return this.#lastOrder + 1
  }

  /** Carries out what `admit` decided. */
  apply(verdict: Verdict): void {
    this.lastFence = verdict.lastFence
    this.ended = verdict.ended
    for (const { before, after } of verdict.changes) {
      if (before !== undefined && before.state !== after?.state) this.#remove(before)
      if (after !== undefined) this.put(after)
    }
    if (this.#waiters.length === 0 && this.#holders.length === 0) this.#lastOrder = 0
  }

  /** Adds a record or puts it in the place of the one with its id and state. */
  put(record: ClaimRecord): void {
    const { id } = record.claim
    this.#lastOrder = Math.max(this.#lastOrder, record.order)
    if (record.state === 'held') {
      const at = this.#holderAt(id)
      if (at >= 0) this.#holders[at] = record
      else if (this.#holders.length === 0) this.#holders = [record]
      else this.#holders.push(record)
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
      const at = this.#holderAt(id)
      if (this.#holders.length === 1 && at === 0) this.#holders = none
      else if (at >= 0) this.#holders.splice(at, 1)
      return
    }
    if (this.#waitersById?.delete(id)) this.#waiters.splice(this.#place(record), 1)
  }

  #holderAt(id: string): number {
    for (let at = 0; at < this.#holders.length; at += 1) if (this.#holders[at]?.claim.id === id) return at
    return -1
  }

  /** Where a record stands, or would stand, among the waiters. Rank and order never change while it waits. */
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
