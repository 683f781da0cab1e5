import { compareRank, type ClaimRecord, type Ended } from './claim-record.ts'
import type { KeyView, Decision } from './admission.ts'
import { HolderIndex } from './holder-index.ts'
import type { Crowd } from './holders.ts'
import { WaiterIndex } from './waiter-index.ts'
import type { WaiterCrowd } from './waiters.ts'

/** An empty list, shared and never changed: the first record gets a list of its own. */
const none: never[] = []

/** The last fence minted: of one key, or of all keys of a store that counts them together. */
export interface FenceCounter {
  last: number
}

/** Up to this many holders, or waiters for ranges, are read as a list; of more, only those that a request concerns. */
const fewMax = 8

/** A key's claims held in memory: the view for stores that read a key whole. */
export class KeyState implements KeyView {
  /** The store's wall clock in microseconds, set by the store before each request. */
  fenceFloor = 0
  ended: Ended | undefined
  /** By id, in the order of their grants. Nearly always none or one, which is then kept without a map. */
  #holders: ClaimRecord | Map<string, ClaimRecord> | undefined
  /** The holders as a list, until one changes. */
  #listed: readonly ClaimRecord[] | undefined
  /** The same holders, while there are many. */
  #index: HolderIndex | undefined
  /** In the order of {@link compareRank}. */
  #waiters: ClaimRecord[] = none
  #waitersById: Map<string, ClaimRecord> | undefined
  /** How many of them wait for a range. */
  #ranged = 0
  /** The same waiters, while many wait for ranges. */
  #waiterIndex: WaiterIndex | undefined
  #lastOrder = 0

  readonly #fences: FenceCounter
  readonly #fewMax: number

  /** `few`: up to how many holders, or waiters for ranges, are read as a list. */
  constructor(fences: FenceCounter = { last: 0 }, few = fewMax) {
    this.#fences = fences
    this.#fewMax = few
  }

  get lastFence(): number {
    return this.#fences.last
  }

  /** No claim holds or waits, and no unclean end is remembered. */
  get idle(): boolean {
    return !this.hasClaims && this.ended === undefined
  }

  /** Whether a claim holds or waits. */
  get hasClaims(): boolean {
    return this.#holders !== undefined || this.#waiters.length > 0
  }

  holders(): readonly ClaimRecord[] {
    const holders = this.#holders
    if (holders === undefined) return none
    if (!(holders instanceof Map)) return [holders]
    return (this.#listed ??= [...holders.values()])
  }

  get crowd(): Crowd | undefined {
    return this.#index
  }

  waiters(): readonly ClaimRecord[] {
    return this.#waiters
  }

  get waiterCrowd(): WaiterCrowd | undefined {
    return this.#waiterIndex
  }

  find(id: string): ClaimRecord | undefined {
    const holders = this.#holders
    const held = holders instanceof Map ? holders.get(id) : holders?.claim.id === id ? holders : undefined
    return held ?? this.#waitersById?.get(id)
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
    this.#index?.settle()
    this.#waiterIndex?.settle()
    if (this.#waiters.length === 0 && this.#holders === undefined) this.#lastOrder = 0
  }

  /** Adds a record, or replaces the record with its id and state. */
  put(record: ClaimRecord): void {
    const { id } = record.claim
    this.#lastOrder = Math.max(this.#lastOrder, record.order)
    if (record.state === 'held') {
      this.#putHolder(id, record)
      return
    }
    if (this.#waitersById === undefined) {
      this.#waitersById = new Map()
      this.#waiters = []
    }
    const before = this.#waitersById.get(id)
    this.#waiters.splice(this.#place(record), before === undefined ? 0 : 1, record)
    this.#waitersById.set(id, record)
    if (before === undefined && record.claim.range !== undefined) this.#ranged += 1
    if (this.#waiterIndex !== undefined) this.#waiterIndex.put(record, before)
    else if (this.#ranged > this.#fewMax) this.#indexWaiters()
  }

  /**
   * Takes the holder out of a key that has nothing else: a new key state into which that record is put is the same. Undefined:
   * the key has more, or nothing.
   */
  takeOnlyHolder(): ClaimRecord | undefined {
    const holder = this.#holders
    if (holder === undefined || holder instanceof Map) return undefined
    if (this.#waiters.length > 0 || this.ended !== undefined || this.#lastOrder !== holder.order) return undefined
    this.#holders = undefined
    this.#lastOrder = 0
    return holder
  }

  #remove(record: ClaimRecord): void {
    const { id } = record.claim
    if (record.state === 'held') {
      this.#removeHolder(id)
      return
    }
    const stored = this.#waitersById?.get(id)
    if (stored === undefined) return
    this.#waitersById?.delete(id)
    this.#waiters.splice(this.#place(record), 1)
    if (record.claim.range !== undefined) this.#ranged -= 1
    // Half of it, for the same reason as with holders.
    if (this.#ranged <= this.#fewMax / 2) this.#waiterIndex = undefined
    else this.#waiterIndex?.delete(stored)
  }

  #indexWaiters(): void {
    this.#waiterIndex = new WaiterIndex(this.#waiters, (record) => this.#behind(record))
  }

  *#behind(record: ClaimRecord | undefined): Iterable<ClaimRecord> {
    for (let at = record === undefined ? 0 : this.#place(record); at < this.#waiters.length; at += 1) {
      const waiter = this.#waiters[at] as ClaimRecord
      if (record === undefined || compareRank(waiter, record) > 0) yield waiter
    }
  }

  #putHolder(id: string, record: ClaimRecord): void {
    const holders = this.#holders
    this.#listed = undefined
    if (holders instanceof Map) {
      holders.set(id, record)
      if (this.#index !== undefined) this.#index.put(record)
      else if (holders.size > this.#fewMax) this.#index = new HolderIndex(holders.values())
    } else if (holders === undefined || holders.claim.id === id) this.#holders = record
    else this.#holders = new Map([holders, record].map((each) => [each.claim.id, each]))
  }

  #removeHolder(id: string): void {
    const holders = this.#holders
    this.#listed = undefined
    if (!(holders instanceof Map)) {
      if (holders?.claim.id === id) this.#holders = undefined
      return
    }
    if (!holders.delete(id)) return
    this.#index?.delete(id)
    // Half of it, so that a key at the boundary does not build its index again and again.
    if (holders.size < 2 || holders.size <= this.#fewMax / 2) this.#index = undefined
    if (holders.size < 2) this.#holders = holders.values().next().value
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
