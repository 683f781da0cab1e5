import { openLocks } from '../api/create-locks.ts'
import type { LockDriver } from '../core/contract/driver.ts'
import { LeaseholdError } from '../core/errors.ts'
import type { Environment } from '../core/time/environment.ts'
import type { Locks } from '../api/locks.ts'
import { checkHistory, type HistoryReport } from './history.ts'
import type { HistoryEvent } from './history/event.ts'
import { SimulatedLink, type NetworkLink } from './simulation/network.ts'
import { SimulatedProcess } from './simulation/simulated-process.ts'
import { simulatedThread } from './simulation/simulated-thread.ts'
import { injectFaults, weatherOf } from './simulation/weather.ts'
import { Worker } from './simulation/worker.ts'
import { World } from './simulation/world.ts'

/** A store in a simulated world, made by the author of its driver. */
export interface SimulatedStore {
  /**
   * A driver for one more process. Its requests and the store's notifications go over `line`; its time and its
   * timers are those of `environment`. It must not wait for anything else: for no socket, file or timer of the real world.
   */
  driver(line: NetworkLink, environment: Environment): LockDriver
  /** What the store holds, seen without a line. */
  list: LockDriver['list']
}

/** For faults of the store's own, such as the restart of a server. */
export interface StoreFaults {
  /** True time, its timers, and chance by the seed. */
  readonly environment: Environment
  /** Whether faults may happen now. If not, the store must schedule none. */
  readonly storms: () => boolean
}

/** The options of `simulate`. */
export interface SimulationOptions {
  /** The same seed tells the same story. */
  readonly seed: number
  /** Makes the store, empty. `clock` is its time: nothing in it may read another. `faults` is for what fails by itself. */
  readonly store: (clock: { now(): number; wall(): number }, faults: StoreFaults) => SimulatedStore
  /**
   * Storm: messages are lost, late and repeated, and processes are stopped and killed, until it clears up. Calm:
   * everything arrives, once and soon, and nobody may be overtaken.
   *
   * @default 'storm'
   */
  readonly weather?: 'calm' | 'storm' | undefined
  /**
   * Processes at once.
   *
   * @default 3
   */
  readonly processes?: number | undefined
  /**
   * Workers that want locks in each process.
   *
   * @default 3
   */
  readonly workers?: number | undefined
  /**
   * Whether processes renew from a second thread, over a driver of its own, as with `heartbeatThread`.
   *
   * @default false
   */
  readonly threads?: boolean | undefined
  /**
   * How long the workers go on, in simulated milliseconds.
   *
   * @default 20_000
   */
  readonly ms?: number | undefined
  /**
   * Asked once for each fault, in the order of the story: false leaves that fault out. To find the few that a violation needs.
   *
   * @default every fault happens
   */
  readonly strikes?: (() => boolean) | undefined
}

/** What a simulation found. If all is well everything but `summary` and `events` is empty or 0. */
export interface SimulationReport extends HistoryReport {
  /** Workers still without a turn long after the storm, when all could have had theirs. */
  readonly stuck: readonly string[]
  /** What the store still held when everybody had gone, and the longest lease had passed. */
  readonly left: readonly string[]
  /** Timers of clients and drivers that were closed. */
  readonly timers: number
  /** What happened, by true time. */
  readonly events: readonly HistoryEvent[]
}

/** The shortest ttl asked for; longer if the store's minimum is longer. */
const ttlMinMs = 500
/** The longest ttl, as a multiple of the shortest. After the storm a turn takes at most two of them. */
const ttlSpread = 3

/**
 *  * Plays real clients over your driver in simulated time: processes whose clocks run differently, whose lines to the store lose,
 * delay and repeat, and which are stopped and killed. True time judges who held what. Twenty seconds of theirs take a fraction
 * of one of yours. Rejects with what a driver must never throw.
 *
 * @example
 * ```ts
 * import { memory } from 'leasehold/memory'
 * import { overNetwork, simulate } from 'leasehold/testing'
 *
 * const report = await simulate({
 *   seed: 1,
 *   store: (clock) => {
 *     const store = memory({ clock })
 *     return { driver: (line) => overNetwork(line, store), list: (query) => store.list(query) }
 *   },
 * })
 * console.assert(report.violations.length === 0)
 * ```
 */
export async function simulate(options: SimulationOptions): Promise<SimulationReport> {
  const { seed, weather = 'storm', processes = 3, workers = 3, ms = 20_000 } = options
  const world = new World(seed, options.strikes)
  const storeRate = world.clockRate()
  const until = world.now + ms
  const storms = (): boolean => weather === 'storm' && world.now < until
  const clock = { now: () => world.now * storeRate, wall: () => 1_700_000_000_000 + world.now }
  const store = options.store(clock, { environment: world.environment(), storms })
  const events: HistoryEvent[] = []
  const waiting = new Set<string>()
  let shortestMs = ttlMinMs
  let queues = true

  const live = async (name: string): Promise<void> => {
    const process = new SimulatedProcess(world, world.clockRate())
    const { environment } = process
    const lineOf = (of: SimulatedProcess): NetworkLink => new SimulatedLink(world, of, weatherOf(world, storms))
    const driver = store.driver(lineOf(process), environment)
    const thread = options.threads === true ? new SimulatedProcess(world, process.rate) : undefined
    const threadDriver = thread && store.driver(lineOf(thread), thread.environment)
    const { supports } = driver
    shortestMs = Math.max(ttlMinMs, supports.ttlMinMs)
    queues = supports.queue
    const locks = await opened(async () => {
      await threadDriver?.open()
      const startThread = thread && threadDriver && simulatedThread(world, process, thread, threadDriver)
      return openLocks({ driver, environment, runnerName: undefined, startThread })
    })
    if (locks === undefined) {
      // The store could not be reached: the process connects again.
      await Promise.all([driver.close(), threadDriver?.close()])
      await world.wait(world.between(50, 500))
      return world.now < until ? live(`${name}'`) : undefined
    }
    injectFaults(world, name, process, storms, events, { thread })
    const shared = { world, process, locks, supports, events, waiting, client: name, ttlMinMs: shortestMs }
    const crew = Array.from(
      { length: workers },
      (_, number) => new Worker({ ...shared, name: `${name}.${number}`, alone: workers === 1 }),
    )
    const work = async (): Promise<string> => {
      await Promise.all(crew.map((worker) => worker.work(until)))
      await locks.close()
      return 'closed'
    }
    const end = await Promise.race([work(), process.killed.then(() => 'killed')])
    if (end === 'killed') for (const waiter of waiting) if (waiter.startsWith(`${name}.`)) waiting.delete(waiter)
    if (world.now < until) await live(`${name}'`)
  }

  const lives = Array.from({ length: processes }, (_, number) => live(`process-${number}`))
  const longestMs = (): number => ttlSpread * shortestMs
  const wearied = world.wait(ms).then(() => world.wait(processes * workers * 2 * longestMs()))
  await world.run(Promise.race([Promise.all(lives), wearied]))
  const stuck = [...waiting]
  // Longer than any call without an answer is retried.
  await world.pass(40 * longestMs())
  const report = checkHistory(events, { fair: weather === 'calm' && queues })
  return { ...report, stuck, left: await heldIn(store), timers: stuck.length > 0 ? 0 : world.timers, events }
}

/** Undefined: the store cannot be reached. */
async function opened(open: () => Promise<Locks>): Promise<Locks | undefined> {
  try {
    return await open()
  } catch (error) {
    if (error instanceof LeaseholdError && error.code === 'UNAVAILABLE') return undefined
    throw error
  }
}

/** Names of the claims whose leases are not over by the store's clock. */
async function heldIn(store: SimulatedStore): Promise<readonly string[]> {
  const { now, keys } = await store.list({})
  return keys.flatMap(({ key, claims }) =>
    claims.filter(({ expiresAt }) => expiresAt > now).map(({ state, runner }) => `${key} ${state} by ${runner.client}`),
  )
}
