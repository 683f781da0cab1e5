import type { Scope } from '../../core/scope.ts'
import { exclusively, type Sharing } from '../acquisition.ts'
import type { Lease } from '../lease.ts'
import type { AcquireOptions } from '../options.ts'
import type { Body, RunArguments } from '../lock.ts'
import type { Acquirer } from '../acquirer.ts'

/** A lock that many may read under and one may write under. Neither starves the other: they take turns as they came. */
export interface ReadWriteLock {
  readonly scope: Scope
  /** Waits until it may read. `lease.upgrade()` makes a writer of it. */
  read(options?: AcquireOptions): Promise<Lease>
  tryRead(options?: AcquireOptions): Promise<Lease | null>
  runRead<Result>(body: Body<Result>): Promise<Result>
  runRead<Result>(options: AcquireOptions, body: Body<Result>): Promise<Result>
  /** Waits until it may write, alone. `lease.downgrade()` lets readers in. */
  write(options?: AcquireOptions): Promise<Lease>
  tryWrite(options?: AcquireOptions): Promise<Lease | null>
  runWrite<Result>(body: Body<Result>): Promise<Result>
  runWrite<Result>(options: AcquireOptions, body: Body<Result>): Promise<Result>
}

const together: Sharing = { mode: 'shared' }

/** @internal */
export function readWriteLock(acquirer: Acquirer, scope: Scope, fixed: AcquireOptions): ReadWriteLock {
  const reader = acquirer.lock(scope, together, fixed)
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
