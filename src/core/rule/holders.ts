import type { ClaimRecord } from './claim-record.ts'
import { overlaps, roomFor, type ClaimShape } from './conflict.ts'

/** A claim that may take the place of a holder. */
export type ConvertingShape = ClaimShape & { readonly replaces?: string | undefined }

/** How many holders of a key have the same mode and limit, on ranges or on the whole key. */
export interface Tally {
  readonly mode: ClaimShape['mode']
  readonly limit: number | undefined
  readonly ranged: boolean
  readonly count: number
}

/** The holders of a key that has too many to read them all, by what the rule asks of them. */
export interface Crowd {
  find(id: string): ClaimRecord | undefined
  /** Those whose time may be over, grace included, or whose lease a clock that was set back may have stretched. */
  due(now: number): Iterable<ClaimRecord>
  /** In the order of their ends, grace included. */
  byEnd(): Iterable<ClaimRecord>
  tallies(): Iterable<Tally>
  /** Those that overlap a claim of this shape, in any order. */
  overlapping(claim: Pick<ClaimShape, 'range'>): Iterable<ClaimRecord>
}

/** The holders of a key as one request has decided about them so far. */
export interface Holders {
  find(id: string): ClaimRecord | undefined
  /** Whether a claim can join the holders: see `roomFor`. */
  room(claim: ConvertingShape): 'room' | 'none' | 'mismatch'
  /** Whether one holder has the whole key for itself. */
  heldAlone(): boolean
  /** Those that overlap a claim of this shape, in any order. */
  overlapping(claim: Pick<ClaimShape, 'range'>): Iterable<ClaimRecord>
  /** When the first holder that overlaps this claim is over, grace included; Infinity if there is none. */
  firstEnd(claim: Pick<ClaimShape, 'range'>): number
  add(record: ClaimRecord): void
  remove(record: ClaimRecord): void
  replace(record: ClaimRecord, by: ClaimRecord): void
}

/** When a holder no longer blocks others. */
export function endOf({ expiresAt, claim }: ClaimRecord): number {
  return expiresAt + claim.graceMs
}

/** A few holders: the list itself. */
export class FewHolders implements Holders {
  #records: readonly ClaimRecord[]

  constructor(records: readonly ClaimRecord[]) {
    this.#records = records
  }

  get records(): readonly ClaimRecord[] {
    return this.#records
  }

  find(id: string): ClaimRecord | undefined {
    for (const holder of this.#records) if (holder.claim.id === id) return holder
    return undefined
  }

  room(claim: ConvertingShape): 'room' | 'none' | 'mismatch' {
    return roomFor(claim, this.#records)
  }

  /** An exclusive holder of the whole key is the only holder, so looking at the first is enough. */
  heldAlone(): boolean {
    const first = this.#records[0]?.claim
    return first !== undefined && first.mode === 'exclusive' && first.range === undefined
  }

  overlapping(claim: Pick<ClaimShape, 'range'>): readonly ClaimRecord[] {
    return this.#records.filter((holder) => overlaps(holder.claim, claim))
  }

  firstEnd(claim: Pick<ClaimShape, 'range'>): number {
    let first = Infinity
    for (const holder of this.#records) if (overlaps(holder.claim, claim)) first = Math.min(first, endOf(holder))
    return first
  }

  add(record: ClaimRecord): void {
    this.#records = [...this.#records, record]
  }

  remove(record: ClaimRecord): void {
    this.#records = this.#records.filter((holder) => holder !== record)
  }

  replace(record: ClaimRecord, by: ClaimRecord): void {
    this.#records = this.#records.map((holder) => (holder === record ? by : holder))
  }
}

/** Many holders: a crowd, and over it what the request has changed. */
export class ManyHolders implements Holders {
  readonly #crowd: Crowd
  /** By id: the holder as decided; undefined if it no longer holds. */
  readonly #changed = new Map<string, ClaimRecord | undefined>()
  readonly #tallies: Tallies

  constructor(crowd: Crowd) {
    this.#crowd = crowd
    this.#tallies = new Tallies(crowd.tallies())
  }

  find(id: string): ClaimRecord | undefined {
    return this.#changed.has(id) ? this.#changed.get(id) : this.#crowd.find(id)
  }

  room(claim: ConvertingShape): 'room' | 'none' | 'mismatch' {
    if (this.#ranges(claim)) return roomFor(claim, this.overlapping(claim))
    const replaced = claim.replaces === undefined ? undefined : this.find(claim.replaces)
    return roomAmong(claim, this.#tallies.all(), replaced?.claim)
  }

  heldAlone(): boolean {
    for (const { mode, ranged } of this.#tallies.all()) if (mode === 'exclusive' && !ranged) return true
    return false
  }

  *overlapping(claim: Pick<ClaimShape, 'range'>): Iterable<ClaimRecord> {
    for (const holder of this.#crowd.overlapping(claim)) if (!this.#changed.has(holder.claim.id)) yield holder
    for (const holder of this.#changed.values()) {
      if (holder !== undefined && overlaps(holder.claim, claim)) yield holder
    }
  }

  firstEnd(claim: Pick<ClaimShape, 'range'>): number {
    let first = Infinity
    if (this.#ranges(claim)) {
      for (const holder of this.overlapping(claim)) first = Math.min(first, endOf(holder))
      return first
    }
    for (const holder of this.#changed.values()) if (holder !== undefined) first = Math.min(first, endOf(holder))
    for (const holder of this.#crowd.byEnd()) {
      if (!this.#changed.has(holder.claim.id)) return Math.min(first, endOf(holder))
    }
    return first
  }

  add(record: ClaimRecord): void {
    this.#changed.set(record.claim.id, record)
    this.#tallies.count(record.claim, 1)
  }

  remove(record: ClaimRecord): void {
    this.#changed.set(record.claim.id, undefined)
    this.#tallies.count(record.claim, -1)
  }

  replace(_record: ClaimRecord, by: ClaimRecord): void {
    this.#changed.set(by.claim.id, by)
  }

  /** Whether some holders may not overlap this claim, so that counting all of them says nothing. */
  #ranges({ range }: Pick<ClaimShape, 'range'>): boolean {
    if (range === undefined) return false
    for (const { ranged } of this.#tallies.all()) if (ranged) return true
    return false
  }
}

/** Whether a claim can join holders that all overlap it, but for one of the shape `without`: `roomFor`, by their number. */
export function roomAmong(
  claim: ClaimShape,
  tallies: Iterable<Tally>,
  without?: ClaimShape,
): 'room' | 'none' | 'mismatch' {
  let sharing = 0
  let mismatch = false
  for (const tally of tallies) {
    const inTheWay = tally.count - (without !== undefined && isOf(tally, without) ? 1 : 0)
    if (inTheWay === 0) continue
    if (tally.mode === 'exclusive' || claim.mode === 'exclusive') return 'none'
    if (tally.limit !== claim.limit) mismatch = true
    sharing += inTheWay
  }
  if (mismatch) return 'mismatch'
  return claim.limit !== undefined && sharing >= claim.limit ? 'none' : 'room'
}

/** How many holders there are of each shape. Those without a holder are not listed. */
export class Tallies {
  readonly #tallies: { -readonly [Field in keyof Tally]: Tally[Field] }[] = []

  constructor(tallies: Iterable<Tally> = []) {
    for (const tally of tallies) this.#tallies.push({ ...tally })
  }

  all(): readonly Tally[] {
    return this.#tallies
  }

  /** Counts a holder in, or out. */
  count(claim: ClaimShape, by: 1 | -1): void {
    const { mode, limit } = claim
    const at = this.#tallies.findIndex((tally) => isOf(tally, claim))
    const tally = this.#tallies[at]
    if (tally === undefined) this.#tallies.push({ mode, limit, ranged: claim.range !== undefined, count: by })
    else {
      tally.count += by
      if (tally.count === 0) this.#tallies.splice(at, 1)
    }
  }
}

function isOf(tally: Tally, { mode, limit, range }: ClaimShape): boolean {
  return tally.mode === mode && tally.limit === limit && tally.ranged === (range !== undefined)
}
