/** Which claims of a thread exclude each other, and which of them goes first. Pure. */
import type { ThreadClaim } from './thread.ts'

/** Whether two claims can never be held together. A conversion and the claim that it replaces can: one owner has both. */
export function conflicts(claim: ThreadClaim, other: ThreadClaim): boolean {
  if (claim.mode === 'shared' && other.mode === 'shared') return false
  return !replaces(claim, other) && !replaces(other, claim)
}

/** Whether a claim converts another. */
export function replaces({ replaced }: ThreadClaim, other: ThreadClaim): boolean {
  return replaced !== undefined && replaced.claim === other.record?.id
}

/**
 * From which place on a claim stands in the way of others. A conversion stands where the claim that it replaces stands: so nobody gets in
 * between when that one ends. Infinity: nowhere, since it has stepped back.
 */
export function standsFrom({ place, replaced }: ThreadClaim): number {
  return Math.min(place ?? Infinity, replaced?.place ?? Infinity)
}

/** Whether a waiting claim goes before another: conversions first, then by priority, then by arrival. */
export function outranks(claim: ThreadClaim, other: ThreadClaim): boolean {
  const converting = Number(claim.replaced !== undefined) - Number(other.replaced !== undefined)
  if (converting !== 0) return converting > 0
  return claim.priority === other.priority ? claim.comment < other.comment : claim.priority > other.priority
}

/** Whether a claim may have been held: only its owner's word, on ending it, says that it never was. */
export function mayHaveHeld({ record, end }: ThreadClaim): boolean {
  return record?.heldSince !== undefined || end?.how !== 'completed'
}
