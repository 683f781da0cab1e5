import { openLocks } from '../../../src/api/create-locks.ts'
import { documentDriver } from '../../../src/drivers/document/driver.ts'
import type { LockDriver } from '../../../src/core/contract/driver.ts'
import { memory } from '../../../src/drivers/memory/driver.ts'
import { checkHistory, type HistoryEvent, type HistoryReport } from '../../../src/testing/index.ts'
import { World } from '../../../src/testing/simulation/world.ts'
import { DocumentShelf } from '../support/document-shelf.ts'
import { ClocklessWorld, fastestRate } from './clockless-world.ts'
import { documentDriverOver, driverOver, type Limit } from './drivers.ts'
import { SimulatedLink, type NetworkLink } from '../../../src/testing/simulation/network.ts'
import { OrphanWatch } from './orphan-watch.ts'
import type { PassedLease, Subject } from './setting.ts'
import { SimulatedProcess } from '../../../src/testing/simulation/simulated-process.ts'
import { simulatedThread } from '../../../src/testing/simulation/simulated-thread.ts'
import { injectFaults, weatherOf } from '../../../src/testing/simulation/weather.ts'
import { Traces } from './traces.ts'
import { TrustWatch } from './trust-watch.ts'
import { Worker } from './worker.ts'
import { clientOf } from '../../support/client-of.ts'

export interface TourOptions {
  readonly seed: number
  /** Calm: everything arrives, once and soon, and nobody is stopped or killed. Gale: all lines are bad, and stops many. */
  readonly weather: 'calm' | 'storm' | 'gale'
  /**
   * Absent: one that can do everything. Documents: each process runs the rule itself, and swaps what it has read. Clockless: the same
   * without a clock to ask, among processes whose clocks are off by up to a twentieth, and whose wall clocks by an hour.
   */
  readonly store?: Limit | 'documents' | 'clockless'
  /** Absent: everything. */
  readonly about?: Subject
  readonly processes?: number
  readonly workers?: number
  readonly ms?: number
  /** Whether processes renew from a second thread, too. */
  readonly threads?: boolean
  /** Replaces the real `openLocks`. */
  readonly openLocks?: typeof openLocks
  /** Whether the next fault happens, asked once for each. Absent: every one does. */
  readonly strikes?: () => boolean
  /** Is given what happened, by true time. */
  readonly onEvents?: (events: readonly HistoryEvent[]) => void
}

export interface TourReport extends HistoryReport {
  /** Workers still without a turn after the storm, when all could have had theirs. */
  readonly stuck: readonly string[]
  /** What the store still held when everybody had gone, and one lease more had passed. */
  readonly left: readonly string[]
  /** Claims that no client knew of although nothing was lost. */
  readonly orphans: readonly string[]
  /** Leases that their holders trusted for longer than the store kept them. */
  readonly overtrusted: readonly string[]
  /** Timers of clients that were closed. */
  readonly timers: number
  /** What clients that were not killed left behind, or still had when nobody used them any more. */
  readonly traces: readonly string[]
}

/** How long a turn may take, after the storm, for each of those who want one. Most take less than a second. */
const turnMs = 3000
/** Longer than a holder lets go before its store does. */
const checkEveryMs = 250
/** A holder that trusts too long mostly does so for longer than this. */
const trustEveryMs = 20
/** Longer than any lease of the tour, and a few tries. */
const patienceMs = 60_000

/**
 * Plays processes whose workers want locks of every kind from one store, over lines that lose, delay and repeat, while
 * processes are stopped and killed; then lets the weather clear up. True time judges, and every clock has a rate of its own.
 */
export async function tour(options: TourOptions): Promise<TourReport> {
  const { seed, processes = 3, workers = 3, ms = 20_000 } = options
  const world = new World(seed, options.strikes)
  const storeRate = world.clockRate()
  const clock = { now: () => world.now * storeRate, wall: () => 1_700_000_000_000 + world.now }
  const limit = options.store === 'documents' || options.store === 'clockless' ? undefined : options.store
  const store = options.store === undefined || limit !== undefined ? memory({ clock }) : undefined
  const shelf = new DocumentShelf(() => Math.floor(clock.now()))
  const clockless = options.store === 'clockless' ? new ClocklessWorld(world) : undefined
  const driverFor = (process: SimulatedProcess, line: NetworkLink): LockDriver => {
    if (clockless !== undefined) return clockless.driverOver(line, process.environment)
    if (store === undefined) return documentDriverOver(line, shelf, process.environment)
    return driverOver(line, store, limit)
  }
  const until = world.now + ms
  const storms = (): boolean => options.weather !== 'calm' && world.now < until
  const gale = options.weather === 'gale'
  const events: HistoryEvent[] = []
  const waiting = new Set<string>()
  const passed: PassedLease[] = []
  const survivors = new Set<Traces>()
  const wholeStore = store ?? clockless?.watcher ?? documentDriver(shelf.store())
  const orphans = new OrphanWatch(wholeStore)
  const trust = new TrustWatch(wholeStore, clockless === undefined ? storeRate : fastestRate)

  const lineOf = (process: SimulatedProcess): NetworkLink =>
    new SimulatedLink(world, process, weatherOf(world, storms, gale))

  const live = async (name: string): Promise<void> => {
    const process = clockless?.process() ?? new SimulatedProcess(world, world.clockRate())
    const traces = new Traces(name)
    survivors.add(traces)
    const driver = traces.watch(driverFor(process, lineOf(process)))
    const thread = options.threads === true ? new SimulatedProcess(world, process.rate) : undefined
    const locks = await (options.openLocks ?? openLocks)({
      driver,
      environment: process.environment,
      allowForce: options.about === 'web locks',
      ...(options.about === 'web locks' && { defaults: { ttl: 1000 } }),
      runnerName: undefined,
      startThread: thread && simulatedThread(world, process, thread, traces.watch(driverFor(thread, lineOf(thread)))),
    })
    orphans.add(locks)
    trust.add(locks, process)
    injectFaults(world, name, process, storms, events, { thread, gale })
    const crew = Array.from(
      { length: workers },
      (_, number) =>
        new Worker({
          world,
          process,
          locks,
          client: name,
          name: `${name}.${number}`,
          events,
          traces,
          trust,
          waiting,
          passed,
          alone: workers === 1,
          queues: options.store !== 'without queue',
          about: options.about ?? 'everything',
          receives: options.about === 'hand-offs' && number === 0,
        }),
    )
    const close = async (): Promise<void> => {
      for (const worker of crew) worker.closing()
      const closing = locks.close()
      traces.owe('closing', closing)
      await closing
      traces.lookAfter(locks)
    }
    // At times in the middle of everything; not in a gale, whose clients are to hold for long.
    const leaves = (): void => void (storms() && close())
    if (storms() && !gale && world.chance(0.3)) world.at(world.between(500, ms), () => process.enter(leaves))
    const work = async (): Promise<string> => {
      await Promise.all(crew.map((worker) => worker.work(until)))
      if (!clientOf(locks).closed) await traces.lookAt(locks, process)
      await close()
      return 'closed'
    }
    if ((await Promise.race([work(), process.killed.then(() => 'killed')])) === 'killed') {
      survivors.delete(traces)
      for (const worker of waiting) if (worker.startsWith(`${name}.`)) waiting.delete(worker)
    }
    if (world.now < until) await live(`${name}'`)
  }
  const lives = Array.from({ length: processes }, (_, number) => live(`process-${number}`))
  const checkOrphans = (): void => {
    void orphans.check()
    if (world.now < until) world.at(checkEveryMs, checkOrphans)
  }
  if (options.weather === 'calm') checkOrphans()
  const lookAtTrust = (): void => {
    void trust.check(world.now)
    if (world.now < until) world.at(trustEveryMs, lookAtTrust)
  }
  // Web locks are stolen.
  if (options.about !== 'web locks') lookAtTrust()
  const wearied = world.wait(ms + processes * workers * turnMs)
  await world.run(Promise.race([Promise.all(lives), wearied]))
  const stuck = [...waiting]
  // An observer counts from its first look.
  await heldIn(wholeStore)
  const isLimited = options.store === 'silent' || options.store === 'without queue'
  await world.pass(patienceMs)
  options.onEvents?.(events)
  return {
    ...checkHistory(events, { fair: options.weather === 'calm' && !isLimited }),
    stuck,
    left: await heldIn(wholeStore),
    orphans: orphans.found,
    overtrusted: trust.found,
    timers: stuck.length > 0 ? 0 : world.timers,
    traces: [...survivors].flatMap(({ found }) => found),
  }
}

/** Names of the claims whose leases are not over by the store's clock. */
async function heldIn(store: LockDriver): Promise<readonly string[]> {
  const { now, keys } = await store.list({})
  return keys.flatMap(({ key, claims }) =>
    claims.filter(({ expiresAt }) => expiresAt > now).map(({ id, state }) => `${key} ${state} ${id}`),
  )
}
