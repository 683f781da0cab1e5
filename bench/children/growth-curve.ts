/** Started by `growth`: measures one curve in a process of its own, and reports each point as soon as it has it. */
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises'
import { startBystander, type Bystander } from '../growth/bystander.ts'
import { BusyMeter } from '../growth/busy.ts'
import type { Busy, Costs, OperationName, Point, StoreName } from '../growth/curve.ts'
import { dimensionOf } from '../growth/dimensions.ts'
import type { Scene } from '../growth/scene.ts'
import { driverOf } from '../growth/stores.ts'
import { percentile } from '../report.ts'

export interface CurveOrder {
  readonly store: StoreName
  readonly where: string
  readonly dimension: string
  readonly sizes: readonly number[]
  /** How long a point may take. */
  readonly pointMs: number
}

/** What this process reports, in this order; `failed` may come at any time and is the last. */
export type CurveMessage = { readonly point: Point; readonly fillMs: number } | { readonly failed: string } | 'done'

const quietMs = 1500
/** All operations are measured this often, one after the other; in each pass one is repeated for this long, or this often. */
const passes = 5
const roundMs = 80
const samplesMax = 100
/** An operation that takes long is repeated at least this often in a pass. */
const samplesMin = 2

const { store, where, dimension, sizes, pointMs } = JSON.parse(process.argv[2] ?? '') as CurveOrder
let pointUntil = Infinity

/** The lowest tenth of each operation's samples: with other load on the machine, the median would measure that load. */
async function workingOn(scene: Scene): Promise<Costs> {
  const samples = new Map<OperationName, number[]>()
  for (let pass = 0; pass < passes; pass += 1) {
    for (const round of scene.rounds()) await repeat(round, samples)
  }
  return Object.fromEntries([...samples].map(([name, us]) => [name, percentile(us, 0.1)]))
}

async function repeat(round: () => Promise<Costs>, samples: Map<OperationName, number[]>): Promise<void> {
  const until = performance.now() + roundMs
  for (let count = 0; count < samplesMax && (performance.now() < until || count < samplesMin); count += 1) {
    checkTime()
    for (const [name, us] of Object.entries(await round()) as [OperationName, number][]) {
      const known = samples.get(name)
      if (known === undefined) samples.set(name, [us])
      else known.push(us)
    }
    // Without a turn of the event loop, a store in this process would look like one long call.
    await nextTurn()
  }
}

async function measured(scene: Scene, size: number, bystander: Bystander, meter: BusyMeter): Promise<Point> {
  const takeBusy = (): Promise<Busy> =>
    meter.take(store === 'sqlite' || store === 'memory' ? undefined : scene.longestAnswerMs())
  pointUntil = performance.now() + pointMs
  const lostBefore = scene.lost
  await takeBusy()
  const filledFrom = performance.now()
  await scene.fill(size)
  const fillMs = performance.now() - filledFrom
  scene.longestAnswerMs()
  // What a batch took says nothing of one call: drivers divide it.
  const busyFilling = await meter.take(undefined)
  const { lost: lostFilling } = await bystander.ask()
  await pause(quietMs)
  const quiet = await bystander.ask()
  const watchUntil = performance.now() + scene.watchMs
  const costs = await workingOn(scene)
  await pause(Math.max(0, watchUntil - performance.now()))
  const busyWorking = await takeBusy()
  const seen = await bystander.ask()
  const lost = scene.lost - lostBefore + lostFilling + quiet.lost + seen.lost
  const point = { size, costs, busyFilling, busyWorking, quietP99Us: quiet.p99Us, bystanderP99Us: seen.p99Us, lost }
  await tell({ point, fillMs })
  return point
}

function checkTime(): void {
  if (performance.now() > pointUntil) throw new Error(`not within ${pointMs / 1000} s`)
}

function tell(message: CurveMessage): Promise<void> {
  return new Promise((resolve) => {
    if (process.send === undefined) resolve()
    else process.send(message, () => resolve())
  })
}

async function run(): Promise<void> {
  const driver = () => driverOf(store, where)
  const scene = dimensionOf(dimension).scene({ driver, check: checkTime })
  const meter = new BusyMeter(store, where)
  await meter.open()
  const bystander = await startBystander(store, where, driver)
  // Warm-up: code is compiled, connections are made.
  await scene.open()
  await scene.fill(sizes[0] ?? 1)
  await workingOn(scene)
  for (const size of sizes) await measured(scene, size, bystander, meter)
  await tell('done')
}

process.once('disconnect', () => process.exit())
await run().catch((error: unknown) => tell({ failed: error instanceof Error ? error.message : String(error) }))
// What is still held ends with the store.
process.exit()
