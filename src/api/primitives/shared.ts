import type { Scope } from '../../core/contract/scope.ts'
import { exclusively, type Sharing } from '../client/acquisition.ts'
import type { Lease } from '../lease.ts'
import type { AcquireOptions } from '../options.ts'
import type { Acquirer } from '../client/acquirer.ts'
import type { Body, RunArguments, Lock } from '../lock.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { isWithin, requestBounds } from '../../core/contract/bounds.ts'

/** A lock for many readers or one writer, granted in the order of arrival: neither side starves the other. */
export interface ReadWriteLock {
  readonly scope: Scope
  /** Waits for a read lease. `lease.upgrade()` turns it into a write lease. */
  read(options?: AcquireOptions): Promise<Lease>
  tryRead(options?: AcquireOptions): Promise<Lease | null>
  runRead<Result>(body: Body<Result>): Promise<Result>
  runRead<Result>(options: AcquireOptions, body: Body<Result>): Promise<Result>
  /** Waits for the write lease, which excludes all others. `lease.downgrade()` lets readers in. */
  write(options?: AcquireOptions): Promise<Lease>
  tryWrite(options?: AcquireOptions): Promise<Lease | null>
  runWrite<Result>(body: Body<Result>): Promise<Result>
  runWrite<Result>(options: AcquireOptions, body: Body<Result>): Promise<Result>
}

const shared: Sharing = { mode: 'shared' }

/** The read-write lock on a scope, with fixed options. @internal */
export function readWriteLock(acquirer: Acquirer, scope: Scope, fixed: AcquireOptions): ReadWriteLock {
  const reader = acquirer.lock(scope, shared, fixed)
  const writer = acquirer.lock(scope, exclusively, fixed)
  return {
    scope,
    read: (options) => reader.acquire(options),
    tryRead: (options) => reader.tryAcquire(options),
    runRead: <Result>(...rest: RunArguments<Result>) => reader.run(...(rest as [AcquireOptions, Body<Result>])),
    write: (options) => writer.acquire(options),
    tryWrite: (options) => writer.tryAcquire(options),
    runWrite: <Result>(...rest: RunArguments<Result>) => writer.run(...(rest as [AcquireOptions, Body<Result>])),
  }
}

/** A lock that up to `permits` may hold at once. Each permit has a lease and a fence of its own. */
export interface Semaphore extends Lock {
  /** How many may hold it at once. */
  readonly permits: number
}

/** The semaphore on a scope, with fixed options. @internal */
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
