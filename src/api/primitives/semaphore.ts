import { LeaseholdError } from '../../core/errors.ts'
import type { Scope } from '../../core/scope.ts'
import type { AcquireOptions } from '../options.ts'
import type { Lock, Taker } from '../taker.ts'

/** A lock that up to `permits` may hold at once. Each permit has a lease and a fence of its own. */
export interface Semaphore extends Lock {
  readonly permits: number
}

export function semaphoreOf(taker: Taker, scope: Scope, permits: number, fixed: AcquireOptions): Semaphore {
  if (!Number.isSafeInteger(permits) || permits < 1) {
    throw new LeaseholdError(
      'INVALID',
      `A semaphore has a whole number of permits, at least 1, not ${String(permits)}.`,
    )
  }
  return { ...taker.lock(scope, { mode: 'shared', limit: permits }, fixed), permits }
}
