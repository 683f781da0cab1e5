import { createLocks } from '../../../src/index.ts'
import { documentDriver } from '../../../src/core/document-driver.ts'
import type { LockDriver } from '../../../src/core/driver.ts'
import { memory } from '../../../src/drivers/memory.ts'
import { checkHistory, type HistoryEvent, type HistoryReport } from '../../../src/testing/index.ts'
import { World } from '../../support/world.ts'
import { DocumentShelf } from '../support/document-shelf.ts'
import { documentDriverOver, driverOver, type Limit } from './drivers.ts'
import { Line } from './line.ts'
import { SimulatedProcess } from './simulated-process.ts'
import { afflict, weatherOf } from './storm.ts'
import { Worker } from './worker.ts'

export interface TourOptions {
  readonly seed: number
  /** Calm: everything arrives, once and soon, and nobody is stopped or killed. */
  readonly weather: 'calm' | 'storm'
  /** Absent: one that can do everything. Documents: each process runs the rule itself, and swaps what it has read. */
  readonly store?: Limit | 'documents'
  /** All want one lock, for many readers or one writer: then conversions meet most. */
  readonly onlyReads?: boolean
  readonly processes?: number
  readonly workers?: number
  readonly ms?: number
  /** A planted fault: another client. */
  readonly createLocks?: typeof createLocks
}

export interface TourReport extends HistoryReport {
  /** Those who were still waiting long after the storm. */
  readonly stuck: readonly string[]
  /** What the store still held when everybody had gone, and one lease more had passed. */
  readonly left: readonly string[]
  /** Timers of clients that were closed. */
  readonly timers: number
}

/** Longer than any lease of the tour, and a few tries. */
const patienceMs = 60_000

/**
 * Plays processes whose workers want locks of every kind from one store, over lines that lose, delay and repeat, while
 * processes are stopped and killed; then lets the weather clear up. True time judges, and every clock has a rate of its own.
 */
export async function tour(options: TourOptions): Promise<TourReport> {
  const { seed, processes = 3, workers = 3, ms = 20_000 } = options
  const world = new World(seed)
  const storeRate = world.clockRate()
  const clock = { now: () => world.now * storeRate, wall: () => 1_700_000_000_000 + world.now }
  const store = options.store === 'documents' ? undefined : memory({ clock })
  const shelf = new DocumentShelf(() => Math.floor(clock.now()))
  const driverFor = (process: SimulatedProcess, line: Line): LockDriver => {
    if (store === undefined) return documentDriverOver(line, shelf, process.environment)
    return driverOver(line, store, options.store === 'documents' ? undefined : options.store)
  }
  const until = world.now + ms
  const storms = (): boolean => options.weather === 'storm' && world.now < until
  const events: HistoryEvent[] = []
  const waiting = new Set<string>()

  const live = async (name: string): Promise<void> => {
    const process = new SimulatedProcess(world, world.clockRate())
    const driver = driverFor(process, new Line(world, process, weatherOf(world, storms)))
    const locks = await (options.createLocks ?? createLocks)({ driver, environment: process.environment })
    afflict(world, name, process, storms, events)
    const working = Array.from({ length: workers }, (_, number) =>
      new Worker({
        world,
        process,
        locks,
        client: name,
        name: `${name}.${number}`,
        events,
        waiting,
        alone: workers === 1,
        queues: options.store !== 'without queue',
        onlyReads: options.onlyReads ?? false,
      }).work(until),
    )
    const over = Promise.all(working).then(() => locks.close())
    if ((await Promise.race([over.then(() => 'closed'), process.killed.then(() => 'killed')])) === 'closed') return
    for (const worker of waiting) if (worker.startsWith(`${name}.`)) waiting.delete(worker)
    if (world.now < until) await live(`${name}'`)
  }
  const lives = Array.from({ length: processes }, (_, number) => live(`process-${number}`))
  const wearied = world.wait(ms + patienceMs)
  await world.run(Promise.race([Promise.all(lives), wearied]))
  const stuck = [...waiting]
  const isLimited = options.store === 'silent' || options.store === 'without queue'
  await world.pass(patienceMs)
  return {
    ...checkHistory(events, { fair: options.weather === 'calm' && !isLimited }),
    stuck,
    left: await heldIn(store ?? documentDriver(shelf.store())),
    timers: stuck.length > 0 ? 0 : world.timers,
  }
}

/** Whose leases are not over by the store's clock. */
async function heldIn(store: LockDriver): Promise<readonly string[]> {
  const { now, keys } = await store.list({})
  return keys.flatMap(({ key, claims }) =>
    claims.filter(({ expiresAt }) => expiresAt > now).map(({ id, state }) => `${key} ${state} ${id}`),
  )
}
