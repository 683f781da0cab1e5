import type { LockDriver } from '../core/driver.ts'
import type { Environment } from '../core/time/environment.ts'
import { checkOptions, type OptionNames } from '../core/option-names.ts'
import { environmentVariable } from '../core/machine/builtin.ts'
import type { HeldName } from '../core/machine/runner-name.ts'
import type { StartThread } from './client.ts'
import { convert } from './conversion.ts'
import { DeadlockWatch } from './parties/deadlock-watch.ts'
import { handOff } from './hand-off.ts'
import { LockOrder } from './parties/lock-order.ts'
import { Locks } from './locks.ts'
import type { Logger } from './logger.ts'
import { openClient } from './open-client.ts'
import { sayItInDefaults, type AcquireOptions } from './options.ts'

export interface LocksOptions {
  /** Keeps the locks of one application apart from those of others in the same store. Default `default`. */
  readonly namespace?: string | undefined
  /** For operators: stored with every claim. JSON. */
  readonly metadata?: Readonly<Record<string, unknown>> | undefined
  readonly logger?: Logger | undefined
  /** Options of every acquisition, unless it names its own. */
  readonly defaults?: AcquireOptions | undefined
  /** Lets this client take locks from live holders: `onConflict: 'force'` and `evict`. */
  readonly allowForce?: boolean | undefined
  /**
   * Looks for parties that wait for each other, in any process, and gives one of them DEADLOCK. Concerns claims made in
   * a `run` body or with the `party` option. Default true, where the store keeps a queue.
   */
  readonly deadlockDetection?: boolean | undefined
  /**
   * Remembers where a party acquired each lock, for the error it gets should it wait for itself. Costs some ten
   * microseconds an acquisition. Default: unless NODE_ENV is `production`.
   */
  readonly traceParties?: boolean | undefined
  /** For development: warns when a party takes locks in an order that another took the other way round. */
  readonly warnLockOrder?: boolean | undefined
}

export interface CreateLocksOptions extends LocksOptions {
  readonly driver: LockDriver
  /** Time, timers and chance, for simulators and tests. */
  readonly environment?: Environment | undefined
}

/** @internal */
export const locksNames: OptionNames<LocksOptions> = {
  namespace: true,
  metadata: true,
  logger: true,
  defaults: true,
  allowForce: true,
  deadlockDetection: true,
  traceParties: true,
  warnLockOrder: true,
}
const createNames: OptionNames<CreateLocksOptions> = { driver: true, environment: true, ...locksNames }
const ofConnect = 'Only connect, which opens the store by its URL, has that.'
const createHints = { ...sayItInDefaults, runner: ofConnect, heartbeatThread: ofConnect }

/** Locks over a driver you made yourself. Closing them closes the driver. */
export async function createLocks(options: CreateLocksOptions): Promise<Locks> {
  checkOptions(options, createNames, 'createLocks', createHints)
  return openLocks({ ...options, runnerName: undefined, startThread: undefined })
}

/** @internal What `connect` adds: a persisted runner id, and a thread that renews. */
export interface OpenLocksOptions extends CreateLocksOptions {
  readonly runnerName: HeldName | undefined
  readonly startThread: StartThread | undefined
}

/** @internal */
export async function openLocks(options: OpenLocksOptions): Promise<Locks> {
  const { driver, defaults = {} } = options
  const client = await openClient({ ...options, ways: { convert, handOff } })
  const { queue, parties = true } = driver.supports
  if (queue && parties && options.deadlockDetection !== false) client.deadlocks = new DeadlockWatch(client)
  client.tracesParties = options.traceParties ?? environmentVariable('NODE_ENV') !== 'production'
  if (options.warnLockOrder === true) client.order = new LockOrder(client.parties, (message) => client.warn(message))
  // Checks the defaults against what the store can do: before there is a thread to end.
  const locks = new Locks(client, defaults)
  if (options.startThread !== undefined) await client.startThread(options.startThread)
  return locks
}
