import type { Mode, Range } from '../contract/driver.ts'

/** The part of a claim that decides which claims it can share a key with. */
export interface ClaimShape {
  readonly mode: Mode
  readonly limit?: number | undefined
  readonly range?: Range | undefined
}

/** Whether two claims touch the same bytes. A claim without a range touches all of them. */
export function overlaps(claim: Pick<ClaimShape, 'range'>, otherClaim: Pick<ClaimShape, 'range'>): boolean {
  if (claim.range === undefined || otherClaim.range === undefined) return true
  return claim.range.start < otherClaim.range.end && otherClaim.range.start < claim.range.end
}

/** Whether two claims can never be held together. Limits concern more than two claims: {@link roomFor} counts them. */
export function excludes(claim: ClaimShape, otherClaim: ClaimShape): boolean {
  return (claim.mode === 'exclusive' || otherClaim.mode === 'exclusive') && overlaps(claim, otherClaim)
}

/**
 * Whether a claim that must go on waiting (blocked) holds up a claim behind it. Beyond exclusion, a limited claim holds up
 * those that would take from the same limit, so that none overtakes it.
 */
export function standsInTheWay(blocked: ClaimShape, behind: ClaimShape): boolean {
  if (!overlaps(blocked, behind)) return false
  return (
    blocked.mode === 'exclusive' ||
    behind.mode === 'exclusive' ||
    blocked.limit !== undefined ||
    behind.limit !== undefined
  )
}

/** Whether no claim at all can overtake this one while it waits. */
export function holdsUpEverybody(claim: ClaimShape): boolean {
  return claim.range === undefined && (claim.mode === 'exclusive' || claim.limit !== undefined)
}

/** Whether a claim can join the holders; the claim it replaces does not count. Mismatch: they share by another limit. */
export function roomFor(
  claim: ClaimShape & { readonly replaces?: string | undefined },
  holders: Iterable<{ readonly claim: ClaimShape & { readonly id: string } }>,
): 'room' | 'none' | 'mismatch' {
  let sharing = 0
  let mismatch = false
  for (const { claim: holder } of holders) {
    if (holder.id === claim.replaces || !overlaps(holder, claim)) continue
    if (excludes(holder, claim)) return 'none'
    if (holder.limit !== claim.limit) mismatch = true
    sharing += 1
  }
  if (mismatch) return 'mismatch'
  return claim.limit !== undefined && sharing >= claim.limit ? 'none' : 'room'
}
