import { excludes, overlaps } from '../../core/rule/conflict.ts'
import type { Attempt, LoggedGrant } from './attempt.ts'
import { violationName, type Violation } from './violation.ts'

/** An attempt that was granted. */
export type Granted = Attempt & { readonly grant: LoggedGrant }

/**
 * Sweeps over the certain holds of one key in time. It compares only holds that were active together, which in a
 * history without violations are at most as many as clients.
 */
export function findOverlaps(grants: readonly Granted[]): Violation[] {
  const violations: Violation[] = []
  const certain = grants.filter(({ grant }) => grant.heldUntil > grant.returnedAt)
  let active: Granted[] = []
  for (const hold of certain.toSorted((a, b) => a.grant.returnedAt - b.grant.returnedAt)) {
    active = active.filter((earlier) => earlier.grant.heldUntil > hold.grant.returnedAt)
    for (const earlier of active) {
      if (excludes(earlier, hold)) violations.push(overlapOf(earlier, hold))
    }
    const crowd = crowdAround(hold, active)
    if (crowd !== undefined) violations.push(crowd)
    active.push(hold)
  }
  return violations
}

function overlapOf(earlier: Granted, later: Granted): Violation {
  const until = Math.min(earlier.grant.heldUntil, later.grant.heldUntil)
  const lasted = (until - later.grant.returnedAt).toFixed(2)
  return {
    kind: 'overlap',
    key: earlier.key,
    attempts: [earlier.id, later.id],
    message: `${violationName(earlier)} still held when ${violationName(later)} was granted: together for ${lasted} ms`,
  }
}

/** Finds a byte with more holders than its limit allows, the new hold included. */
function crowdAround(hold: Granted, active: readonly Granted[]): Violation | undefined {
  const sharing = [...active.filter((earlier) => earlier.mode === 'shared' && overlaps(earlier, hold)), hold]
  if (hold.mode !== 'shared' || sharing.length < 2) return undefined
  // The byte with most holders is the first byte of one of them.
  for (const { range } of sharing) {
    const byte = range === undefined ? (hold.range?.start ?? 0) : Math.max(range.start, hold.range?.start ?? 0)
    const here = sharing.filter(
      (holder) => holder.range === undefined || (holder.range.start <= byte && byte < holder.range.end),
    )
    const limit = Math.min(...here.map((holder) => holder.limit ?? Infinity))
    if (!here.includes(hold) || here.length <= limit) continue
    return {
      kind: 'overlap',
      key: hold.key,
      attempts: here.map(({ id }) => id),
      message: `${here.length} held together where ${limit} may: ${here.map(violationName).join(', ')}`,
    }
  }
  return undefined
}
