import { LeaseholdError } from '../errors.ts'

/** By how much the wall clock must have passed a last fence before it may be forgotten: see {@link mayForget}. */
const forgetAfterMicroseconds = 3_600_000_000

/**
 * The next fence of a key: above the last, and at least `floor`, the store's wall clock in microseconds. A store that is
 * new, was emptied, or was restored from an older copy does not know the last fence; the clock is past all of them.
 * @internal
 */
export function nextFence(last: number, floor: number): number {
  const fence = Math.max(last + 1, floor)
  if (!Number.isSafeInteger(fence)) {
    throw new LeaseholdError(
      'INVALID',
      `Fence ${fence} is beyond 2^53 and can no longer grow. Check the store's clock.`,
    )
  }
  return fence
}

/** The least the next fence may be, from the store's wall clock in milliseconds. @internal */
export function fenceFloor(wallMs: number): number {
  return Math.floor(wallMs * 1000)
}

/** Whether a store may drop the record of `last`: a clock read in milliseconds can then not mint it again. */
export function mayForget(last: number, wallMs: number): boolean {
  return fenceFloor(wallMs) > last + forgetAfterMicroseconds
}
