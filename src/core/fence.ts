import { LeaseholdError } from './errors.ts'

/** A record may be forgotten once the wall clock has passed its last fence by this much: see {@link mayForget}. */
const forgetAfterMicroseconds = 3_600_000_000

/**
 * The next fence of a key: one more than the last. Where the last may have been lost (a new, emptied or rebooted store)
 * the store passes its wall clock in microseconds as `floor`, which is past every fence minted before the loss.
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

/** The floor for a store that may have lost its last fence, from its wall clock in milliseconds. */
export function fenceFloor(wallMs: number): number {
  return Math.floor(wallMs * 1000)
}

/** Whether a store may drop the record of `last`: a clock read in milliseconds can then not mint it again. */
export function mayForget(last: number, wallMs: number): boolean {
  return fenceFloor(wallMs) > last + forgetAfterMicroseconds
}
