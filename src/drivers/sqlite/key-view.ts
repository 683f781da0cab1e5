import type { KeyView } from '../../core/rule/admission.ts'
import type { ClaimRecord, Ended } from '../../core/rule/claim-record.ts'
import type { Crowd } from '../../core/rule/holders.ts'
import type { WaiterCrowd } from '../../core/rule/waiters.ts'
import { SqliteCrowd } from './crowd.ts'
import { readWaiters, SqliteWaiterCrowd } from './waiter-crowd.ts'
import { bandOf, decodeRow, type ClaimRow } from './claim-row.ts'
import type { SqliteRow } from './database.ts'
import type { RowObserver } from './row-observer.ts'
import type { Statements } from './statements.ts'

/** What the file has of a key, read by one statement. */
export interface KeySummary {
  /** How many hold, at most one more than a list may have. */
  readonly holders: number
  readonly awaited: boolean
  readonly remembered: boolean
}

/** The store-wide counters, as this transaction has set them so far. */
export interface KeyCounters {
  readonly fence: number
  /** The last arrival or turn. */
  readonly sequence: number
}

/** A key's claims in the file, read only as far as the rule asks for them. Valid for one request. */
export class SqliteKeyView implements KeyView {
  readonly lastFence: number
  readonly ended: Ended | undefined
  readonly #key: string
  readonly #summary: KeySummary
  readonly #statements: Statements
  readonly #observer: RowObserver
  readonly #lastSequence: number
  readonly #rows = new Map<string, ClaimRow>()
  #holders: ClaimRecord[] | undefined
  #waiterCrowd: { readonly found: WaiterCrowd | undefined } | undefined

  constructor(
    key: string,
    summary: KeySummary,
    counters: KeyCounters,
    ended: Ended | undefined,
    statements: Statements,
    observer: RowObserver,
  ) {
    this.#key = key
    this.#summary = summary
    this.#statements = statements
    this.#observer = observer
    this.#lastSequence = counters.sequence
    this.lastFence = counters.fence
    this.ended = ended
  }

  get fenceFloor(): number {
    return this.#observer.fenceFloor
  }

  get crowd(): Crowd | undefined {
    if (this.#summary.holders <= this.#statements.fewHoldersMax) return undefined
    return SqliteCrowd.of(this.#key, this.#statements, this.#observer, (row) => this.#see(row, 'held'))
  }

  holders(): readonly ClaimRecord[] {
    this.#holders ??= this.#readHolders().map((row) => this.#see(row, 'held'))
    return this.#holders
  }

  get waiterCrowd(): WaiterCrowd | undefined {
    if (!this.#summary.awaited) return undefined
    this.#waiterCrowd ??= { found: this.#findWaiterCrowd() }
    return this.#waiterCrowd.found
  }

  #findWaiterCrowd(): WaiterCrowd | undefined {
    const { rangedWaiters, fewHoldersMax } = this.#statements
    if ((rangedWaiters.get(this.#key)?.['waiters'] as number) <= fewHoldersMax) return undefined
    return SqliteWaiterCrowd.of(this.#key, this.#statements, this.#observer, (row) => this.#see(row, 'waiting'))
  }

  *waiters(): Iterable<ClaimRecord> {
    if (!this.#summary.awaited) return
    // The rule mostly wants the first waiter only, and a single row is cheaper to read than a list of one.
    const first = this.#statements.firstWaiterOf.get(this.#key)
    if (first === undefined) return
    yield this.#see(first, 'waiting')
    yield* readWaiters(
      (band, arrival, size) => this.#statements.waitersAfter.all(this.#key, band, arrival, size),
      { band: first['band'] as number, arrival: first['arrival'] as number },
      (row) => this.#see(row, 'waiting'),
    )
  }

  find(id: string): ClaimRecord | undefined {
    const holder = this.#findHolder(id)
    if (holder !== undefined || !this.#summary.awaited) return holder
    const row = this.#statements.waiterOf.get(this.#key, id)
    return row === undefined ? undefined : this.#see(row, 'waiting')
  }

  /** Reads no other holder, unless all have been read, or there is one at most. */
  #findHolder(id: string): ClaimRecord | undefined {
    if (this.#holders !== undefined || this.#summary.holders < 2) {
      return this.holders().find(({ claim }) => claim.id === id)
    }
    const row = this.#statements.holderById.get(this.#key, id)
    return row === undefined ? undefined : this.#see(row, 'held')
  }

  ahead(record: ClaimRecord): number {
    if (!this.#summary.awaited) return 0
    const row = this.#statements.waitersBefore.get(this.#key, bandOf(record.claim), record.order)
    return row?.['ahead'] as number
  }

  nextOrder(): number {
    return this.#lastSequence + 1
  }

  /** The claim's row as it was when it was read through this view. */
  row(id: string): ClaimRow | undefined {
    return this.#rows.get(id)
  }

  #readHolders(): readonly SqliteRow[] {
    const { holders } = this.#summary
    if (holders === 0) return []
    if (holders > 1) return this.#statements.holdersOf.all(this.#key)
    const row = this.#statements.holderOf.get(this.#key)
    return row === undefined ? [] : [row]
  }

  #see(raw: SqliteRow, state: 'held' | 'waiting'): ClaimRecord {
    const row = decodeRow(raw, state)
    this.#rows.set(row.claim.id, row)
    return this.#observer.see(row)
  }
}
