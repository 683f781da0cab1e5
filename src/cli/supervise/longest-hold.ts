import { trustedUntil } from '../../core/time/deadline.ts'
import type { Lease } from '../../index.ts'

/** What is left of a lease, and since when it is held. */
type Times = Pick<Lease, 'heldMs' | 'remainingMs'>

/** How much of a lease the way to the store and back may take. */
const wayShare = 1 / 20

/** Whether a lease ends when it does because it may be held for no longer, and not because renewals fail. */
export function isLongestHold({ heldMs, remainingMs }: Times, ttlMs: number, maxHoldMs: number | undefined): boolean {
  if (maxHoldMs === undefined) return false
  const lastMs = Math.min(ttlMs, maxHoldMs)
  return heldMs + remainingMs >= trustedUntil(maxHoldMs - lastMs, lastMs) - lastMs * wayShare
}
