/** The columns by which some of many holders or waiters are found. */
import type { Claim } from '../../core/contract/driver.ts'
import type { Tally } from '../../core/rule/holders.ts'
import { sizeClassOf } from '../../core/rule/range-index.ts'
import type { SqliteValue } from './database.ts'

/** Up to this many holders of a key, or waiters for its ranges, are read as a list. */
export const fewHoldersMax = 8

/** `shape`, `ends_at`, `range_class` and `range_start` of a holder; all null for an exclusive holder of a whole key. */
export function crowdValues(claim: Claim, expiresAt: number): SqliteValue[] {
  const { range } = claim
  return [
    shapeOf(claim),
    endsAt(claim, expiresAt),
    range === undefined ? null : sizeClassOf(range),
    range?.start ?? null,
  ]
}

/** `range_class`, `range_start` and `range_end` of a waiter; all null for the whole key. */
export function rangeValues({ range }: Claim): SqliteValue[] {
  return range === undefined ? [null, null, null] : [sizeClassOf(range), range.start, range.end]
}

/** When a holder no longer blocks others; null if it has the whole key for itself, as nobody looks for it by that. */
export function endsAt(claim: Claim, expiresAt: number): number | null {
  return shapeOf(claim) === null ? null : expiresAt + claim.graceMs
}

/** The mode (`x` or `s`), the limit, and `@` if it is on a range; null for an exclusive holder of a whole key. */
function shapeOf({ mode, limit, range }: Claim): string | null {
  if (mode === 'exclusive') return range === undefined ? null : 'x@'
  return `s${limit ?? ''}${range === undefined ? '' : '@'}`
}

/** Reads what `crowdValues` wrote as the shape. */
export function tallyOf(shape: string, count: number): Tally {
  const ranged = shape.endsWith('@')
  const limit = shape.slice(1, ranged ? -1 : undefined)
  return {
    mode: shape.startsWith('x') ? 'exclusive' : 'shared',
    limit: limit === '' ? undefined : Number(limit),
    ranged,
    count,
  }
}
