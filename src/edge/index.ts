/**
 * A small client for edge workers and pages: locks of a Leasehold server, and the essentials of what `leasehold` has. Leases are
 * claimed, kept and lost by the same code; elections, semaphores, tasks, deadlock detection and the operators' views are left out.
 */
import { exclusively } from '../api/acquisition.ts'
import type { LocksOptions } from '../api/create-locks.ts'
import { openClient } from '../api/open-client.ts'
import { Acquirer } from '../api/acquirer.ts'
import type { Body, Lock, RunArguments } from '../api/lock.ts'
import type { Lease } from '../api/lease.ts'
import { sayItInDefaults, type AcquireOptions } from '../api/options.ts'
import type { Runner } from '../core/driver.ts'
import { LeaseholdError } from '../core/errors.ts'
import type { EventName, Listener } from '../core/events.ts'
import { checkOptions, type OptionNames } from '../core/option-names.ts'
import { toScope, type ScopeLike } from '../core/scope.ts'
import { http, type HttpOptions } from '../drivers/http.ts'

export { LeaseholdError, type ErrorCode, type HolderSummary } from '../core/errors.ts'
export { byteRange, inode, issue, named, path, type Scope, type ScopeLike } from '../core/scope.ts'
export type { AcquireOptions } from '../api/options.ts'
export type { Body, Lock } from '../api/lock.ts'
export type { HttpOptions } from '../drivers/http.ts'
export type { Lease } from '../api/lease.ts'

/** What one client of the edge may be told. */
export type EdgeOptions = Pick<LocksOptions, 'namespace' | 'metadata' | 'logger' | 'defaults' | 'allowForce'>

/** The locks of one namespace of a Leasehold server. */
export interface EdgeLocks extends AsyncDisposable {
  /** Who this client is to others. */
  readonly runner: Runner
  readonly namespace: string
  /** Waits for the lock. Rejects on timeout or abort, leaving no claim behind. */
  acquire(scope: ScopeLike, options?: AcquireOptions): Promise<Lease>
  /** The lock if it is free, else null. Waits only if `wait` says so. */
  tryAcquire(scope: ScopeLike, options?: AcquireOptions): Promise<Lease | null>
  /**
   * Runs `body` while the lock is held, and lets go whatever happens. Rejects with the body's error if there is one, else with
   * LOST if the lock was lost before the body had finished.
   */
  run<Result>(scope: ScopeLike, body: Body<Result>): Promise<Result>
  run<Result>(scope: ScopeLike, options: AcquireOptions, body: Body<Result>): Promise<Result>
  /** The same lock, with the same options, again and again. */
  lock(scope: ScopeLike, options?: AcquireOptions): Lock
  /** Calls `listener` on every such event until it is disposed of. */
  on<Name extends EventName>(name: Name, listener: Listener<Name>): Disposable
  /** Releases what is held, ends what waits, and lets go of the server. */
  close(): Promise<void>
}

const edgeNames: OptionNames<EdgeOptions> = {
  namespace: true,
  metadata: true,
  logger: true,
  defaults: true,
  allowForce: true,
}

/**
 * Opens the locks of a Leasehold server.
 * @example
 * const locks = await connect({ url: 'https://locks.example', token: env.LEASEHOLD_TOKEN })
 */
export async function connect(server: string | HttpOptions, options: EdgeOptions = {}): Promise<EdgeLocks> {
  checkOptions(options, edgeNames, 'connect', sayItInDefaults)
  const driver = http(server)
  try {
    const client = await openClient({ ...options, driver, ways: { convert: leftOut, handOff: leftOut } })
    const acquirer = new Acquirer(client, options.defaults ?? {})
    return {
      runner: client.runner,
      namespace: client.namespace,
      acquire: (scope, acquireOptions) => acquirer.acquire(scope, exclusively, acquireOptions),
      tryAcquire: (scope, acquireOptions) => acquirer.tryAcquire(scope, exclusively, acquireOptions),
      run: <Result>(scope: ScopeLike, ...rest: RunArguments<Result>) => acquirer.run(scope, exclusively, ...rest),
      lock: (scope, fixed) => acquirer.lock(toScope(scope), exclusively, fixed),
      on: (name, listener) => client.events.on(name, listener),
      close: () => client.close(),
      [Symbol.asyncDispose]: () => client.close(),
    }
  } catch (error) {
    await driver.close()
    throw error
  }
}

function leftOut(): Promise<never> {
  const message = 'leasehold/edge neither converts leases nor hands them off. Use createLocks of leasehold for that.'
  return Promise.reject(new LeaseholdError('UNSUPPORTED', message))
}
