import type { LockDriver } from '../core/contract/driver.ts'
import type { Environment } from '../core/time/environment.ts'
import { checkOptions, type OptionNames } from '../core/contract/option-names.ts'
import { environmentVariable } from '../core/machine/runtime.ts'
import type { HeldName } from '../core/machine/runner-name.ts'
import type { StartThread } from './client/client.ts'
import { DeadlockWatch } from './owners/deadlock-watch.ts'
import { LockOrder } from './owners/lock-order.ts'
import type { Locks } from './locks.ts'
import { LocksClient } from './locks-client.ts'
import type { Logger } from './client/logger.ts'
import { openClient } from './client/open-client.ts'
import { defaultsHints, type AcquireOptions } from './options.ts'

/** The options of all locks of one client. */
export interface LocksOptions {
  /**
   * Keeps the locks of one application apart from those of others in the same store.
   *
   * @default 'default'
   */
  readonly namespace?: string | undefined
  /** For operators: stored with every claim. JSON. */
  readonly metadata?: Readonly<Record<string, unknown>> | undefined
  /**
   * Where the client logs what it does. `console` fits.
   *
   * @default nowhere
   */
  readonly logger?: Logger | undefined
  /**
   * Options of every acquisition, unless it names its own.
   *
   * @default {}
   */
  readonly defaults?: AcquireOptions | undefined
  /**
   * Lets this client take locks from live holders: `onConflict: 'force'` and `evict`.
   *
   * @default false
   */
  readonly allowForce?: boolean | undefined
  /**
   * Detects owners that wait for each other, in any process, and ends one of the waits with DEADLOCK. Covers claims made in a
   * `run` body or with the `owner` option.
   *
   * @default true, where the store keeps a queue
   */
  readonly deadlockDetection?: boolean | undefined
  /**
   * Remembers where an owner acquired each lock, for the error it gets if it would wait for itself. Costs some ten
   * microseconds an acquisition.
   *
   * @default true, unless NODE_ENV is `production`
   */
  readonly traceOwners?: boolean | undefined
  /**
   * For development: warns when two locks are taken in both orders.
   *
   * @default false
   */
  readonly warnLockOrder?: boolean | undefined
}

/** The options of `createLocks`. */
export interface CreateLocksOptions extends LocksOptions {
  /** The store, by its driver: `memory()`, `redis(…)`, `postgres(…)` … */
  readonly driver: LockDriver
  /**
   * Time, timers and random numbers, for simulators and tests.
   *
   * @default this machine's
   */
  readonly environment?: Environment | undefined
}

/** The names of the options of all clients. @internal */
export const locksNames: OptionNames<LocksOptions> = {
  namespace: true,
  metadata: true,
  logger: true,
  defaults: true,
  allowForce: true,
  deadlockDetection: true,
  traceOwners: true,
  warnLockOrder: true,
}
const createNames: OptionNames<CreateLocksOptions> = { driver: true, environment: true, ...locksNames }
const ofConnect = 'Only connect, which opens the store by its URL, has that option.'
const createHints = { ...defaultsHints, runner: ofConnect, heartbeatThread: ofConnect }

/**
 * Locks over a driver you made yourself. Closing them closes the driver.
 *
 * @example
 * ```ts
 * import { createLocks } from 'leasehold'
 * import { memory } from 'leasehold/memory'
 *
 * await using locks = await createLocks({ driver: memory(), namespace: 'shop', defaults: { ttl: '10s' } })
 * await locks.run('orders/42', (lease) => console.log(lease.fence))
 * ```
 */
export async function createLocks(options: CreateLocksOptions): Promise<Locks> {
  checkOptions(options, createNames, 'createLocks', createHints)
  return openLocks({ ...options, runnerName: undefined, startThread: undefined })
}

/** @internal What `connect` adds: a persisted runner id, and a thread that renews. */
export interface OpenLocksOptions extends CreateLocksOptions {
  readonly runnerName: HeldName | undefined
  readonly startThread: StartThread | undefined
}

/** Opens a client and what watches it, for `createLocks` and `connect`. @internal */
export async function openLocks(options: OpenLocksOptions): Promise<Locks> {
  const { driver, defaults = {} } = options
  const client = await openClient(options)
  const { queue, owners = true } = driver.supports
  const showsWaits = queue ? owners : driver.shareWaits !== undefined
  if (showsWaits && options.deadlockDetection !== false) client.deadlocks = new DeadlockWatch(client)
  client.tracesOwners = options.traceOwners ?? environmentVariable('NODE_ENV') !== 'production'
  if (options.warnLockOrder === true) client.order = new LockOrder(client.owners, (message) => client.warn(message))
  // Checks the defaults against the store, before a thread is started.
  const locks = new LocksClient(client, defaults)
  if (options.startThread !== undefined) await client.startThread(options.startThread)
  return locks
}

/** The options of `connect`. */
export interface ConnectOptions extends LocksOptions {
  /**
   * A stable name for this process. Its runner id is kept in the user's state directory, so that after a restart
   * `onConflict: 'reclaim'` takes its own locks back at once. A name has one live process: a second one is refused.
   *
   * @default an id of this process alone
   */
  readonly runner?: string | undefined
  /**
   * Renews from a thread of its own, over a second connection: leases survive a blocked event loop.
   *
   * @default false
   */
  readonly heartbeatThread?: boolean | undefined
}

/** The names of the options of `connect`. @internal */
export const connectNames: OptionNames<ConnectOptions> = { ...locksNames, runner: true, heartbeatThread: true }
