/**
 * A small client for edge workers and pages: exclusive locks of a Leasehold server. Leases are acquired, renewed, converted,
 * handed off and lost by the same code as in `leasehold`. Left out: elections, semaphores, read-write locks, tasks, deadlock
 * detection and what operators use.
 */
import { exclusively } from '../api/client/acquisition.ts'
import type { LocksOptions } from '../api/create-locks.ts'
import { openClient } from '../api/client/open-client.ts'
import { Acquirer } from '../api/client/acquirer.ts'
import type { RunArguments } from '../api/lock.ts'
import type { Locks } from '../api/locks.ts'
import { defaultsHints } from '../api/options.ts'
import { checkOptions, type OptionNames } from '../core/contract/option-names.ts'
import { toScope, type ScopeLike } from '../core/contract/scope.ts'
import { http, type HttpOptions } from '../drivers/http/driver.ts'

export { LeaseholdError, type ErrorCode, type HolderSummary } from '../core/errors.ts'
export { byteRange, inode, issue, named, path, type Scope, type ScopeLike } from '../core/contract/scope.ts'
export type { AcquireOptions } from '../api/options.ts'
export type { Body, Lock } from '../api/lock.ts'
export type { HttpOptions } from '../drivers/http/driver.ts'
export type { Lease } from '../api/lease.ts'

/** The options of `connect`. */
export type EdgeOptions = Pick<LocksOptions, 'namespace' | 'metadata' | 'logger' | 'defaults' | 'allowForce'>

/** The locks of one namespace of a Leasehold server: the essentials of `Locks`. */
export type EdgeLocks = AsyncDisposable &
  Pick<Locks, 'runner' | 'namespace' | 'acquire' | 'tryAcquire' | 'run' | 'lock' | 'on' | 'close'>

const edgeNames: OptionNames<EdgeOptions> = {
  namespace: true,
  metadata: true,
  logger: true,
  defaults: true,
  allowForce: true,
}

/**
 * Opens the locks of a Leasehold server.
 *
 * @example
 * ```ts
 * import { connect } from 'leasehold/edge'
 *
 * await using locks = await connect({ url: 'https://locks.example.com', token: 'secret' })
 * await locks.run('orders/42', (lease) => console.log(lease.fence))
 * ```
 */
export async function connect(server: string | HttpOptions, options: EdgeOptions = {}): Promise<EdgeLocks> {
  checkOptions(options, edgeNames, 'connect', defaultsHints)
  const driver = http(server)
  try {
    const client = await openClient({ ...options, driver })
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
