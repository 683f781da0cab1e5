import type { ClaimRecord } from './claim-record.ts'
import type { ClaimShape } from './conflict.ts'
import type { Range } from '../contract/driver.ts'

/** Strict waiters share with no claim, or with a limited number; soft waiters share without a limit. */
export type Strictness = 'strict' | 'soft'

export function strictnessOf({ mode, limit }: Pick<ClaimShape, 'mode' | 'limit'>): Strictness {
  return mode === 'exclusive' || limit !== undefined ? 'strict' : 'soft'
}

/** Waiters of a crowd in the order of their rank, mostly those on one range that are equally strict. No conversions. */
export interface Lane {
  /** No other lane of the crowd has this name. */
  readonly name: string
  waiters(): Iterable<ClaimRecord>
}

/** The waiters of a key on which too many wait for ranges to read them all, by what the rule asks of them. */
export interface WaiterCrowd {
  /** In the order of their rank. */
  conversions(): Iterable<ClaimRecord>
  /** Those that rank behind this waiter, or all, in the order of their rank. */
  behind(record: ClaimRecord | undefined): Iterable<ClaimRecord>
  /**
   * Those that rank before this waiter, or all, whose time may be over or whose lease a clock that was set back may have stretched, in any
   * order. Conversions may be left out.
   */
  due(now: number, before: ClaimRecord | undefined): Iterable<ClaimRecord>
  /** Those on the whole key. */
  wholeKey(strictness: Strictness): Lane
  /** Those on ranges that overlap this range. */
  overlapping(range: Range, strictness: Strictness): Iterable<Lane>
  /** All strict waiters on ranges. */
  strictOnRanges(): Lane
}
