import { LeaseholdError } from '../../core/errors.ts'
import { isWithin, requestBounds } from '../../core/limits/bounds.ts'
import type { Scope } from '../../core/scope.ts'
import type { AcquireOptions } from '../options.ts'
import type { Lock } from '../lock.ts'
import type { Acquirer } from '../acquirer.ts'

/** A lock that up to `permits` may hold at once. Each permit has a lease and a fence of its own. */
export interface Semaphore extends Lock {
  /** How many may hold it at once. */
  readonly permits: number
}

/** @internal */
export function semaphoreOf(acquirer: Acquirer, scope: Scope, permits: number, fixed: AcquireOptions): Semaphore {
  if (!isWithin(permits, requestBounds.permits)) {
    const { most } = requestBounds.permits
    throw new LeaseholdError(
      'INVALID',
      `A semaphore has a whole number of permits, at least 1 and at most ${most}, not ${String(permits)}.`,
    )
  }
  return { ...acquirer.lock(scope, { mode: 'shared', limit: permits }, fixed), permits }
}
