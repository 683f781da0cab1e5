/**
 * The specification in `spec/`, checked: the rule, the client and the quorum, for at most STATES states each (default
 * 1,000,000), then TRACES traces (default 10,000) of memory, SQLite, Redis, PostgreSQL and of clients in the simulator. Names after
 * these: only those parts.
 */
import path from 'node:path'
import { report } from '../bench/report.ts'
import type { LockDriver } from '../src/core/contract/driver.ts'
import { memory } from '../src/drivers/memory/driver.ts'
import { redis } from '../src/drivers/redis/driver.ts'
import { sqlite } from '../src/drivers/sqlite/driver.ts'
import { check, type Check } from '../test/specification/checker.ts'
import { mutants } from '../test/specification/mutants.ts'
import { clientCheck, crowds, quorumCheck, ruleCheck } from '../test/specification/scenes.ts'
import { simulatedTraces } from '../test/specification/simulated-traces.ts'
import { recordTrace, refusedStep, type RecordedStore, type Trace } from '../test/specification/traces.ts'
import { postgresHarness } from '../test/support/postgres-harness.ts'
import { PostgresServer } from '../test/support/postgres-server.ts'
import { RedisServer } from '../test/support/redis-server.ts'
import { makeFolder, removeFolder } from '../test/support/scratch-folder.ts'

const [statesMax = '1000000', traces = '10000', ...parts] = process.argv.slice(2)
if (!(Number(statesMax) > 0) || !(Number(traces) >= 0)) {
  console.error(
    'Usage: npm run prove -- spec [STATES] [TRACES] [PART...], e.g. npm run prove -- spec 100000 400 client redis',
  )
  process.exit(2)
}
const isAsked = (part: string): boolean => parts.length === 0 || parts.includes(part)

const found = { states: 0, checks: 0, explored: 0, broken: 0, mutants: 0, mutantsFound: 0, traces: 0, refused: 0 }

// ---- states

const checks: readonly (readonly [part: string, name: string, Check])[] = [
  ...Object.entries(crowds).map(([name, wishes]) => ['rule', name, ruleCheck(wishes, 4)] as const),
  ['client', 'two calls a claim', clientCheck(2)],
  ['client', 'three calls a claim', clientCheck(3)],
  ['quorum', 'a restart', quorumCheck(1)],
  ['quorum', 'uneven counters', quorumCheck(0, 2, [[2, 1, 0]])],
]

for (const [part, name, each] of checks) {
  if (!isAsked(part)) continue
  const { outcome, states, message, steps } = check({ ...each, statesMax: Number(statesMax) })
  found.checks += 1
  found.states += states
  if (outcome === 'kept') found.explored += 1
  if (outcome === 'broken') found.broken += 1
  console.log(`${part}, ${name}: ${states} states, ${outcome === 'kept' ? 'all there are' : outcome}`)
  if (outcome === 'broken') console.log(`${message}\n${steps.join('\n')}`)
}

for (const { fault, from, to, check: each } of isAsked('mutants') ? mutants : []) {
  const { outcome, message } = check({ ...each, statesMax: 100_000, plant: { from, to } })
  found.mutants += 1
  if (outcome === 'broken') found.mutantsFound += 1
  console.log(`${fault}: ${outcome}, ${message}`)
}

// ---- traces

let time = 5_000
const clock = { now: () => time, wall: () => 1_700_000_000_000 + time }
const advance = async (ms: number): Promise<void> => void (time += ms)

interface OpenStore extends RecordedStore {
  readonly close: () => Promise<void>
}

const stores: Readonly<Record<string, () => Promise<OpenStore>>> = {
  async memory() {
    return opened(memory({ name: 'specification', clock }))
  },
  async sqlite() {
    const folder = makeFolder('specification')
    const driver = sqlite({ file: path.join(folder, 'locks.sqlite'), environment: { clock } })
    return opened(driver, async () => removeFolder(folder))
  },
  async redis() {
    const server = await RedisServer.start()
    return opened(redis({ url: server.url, clockForTests: clock.wall }), () => server.stop())
  },
  async postgres() {
    const server = await PostgresServer.start()
    const bench = await postgresHarness(server).open()
    const close = async (): Promise<void> => {
      await bench.close()
      await server.stop()
    }
    return { driver: await bench.driver(), advance: (ms) => bench.advance(ms), close }
  },
}

async function opened(driver: LockDriver, after = async (): Promise<void> => {}): Promise<OpenStore> {
  await driver.open()
  const close = async (): Promise<void> => {
    await driver.close()
    await after()
  }
  return { driver, advance, close }
}

const sources = [...Object.keys(stores), 'simulator'].filter(isAsked)
const perSource = Math.ceil(Number(traces) / sources.length)

function followed(name: string, seed: number, trace: Trace): void {
  const step = refusedStep(trace)
  found.traces += 1
  if (step === undefined) return
  found.refused += 1
  console.log(
    `${name}, seed ${seed}: step ${step} is refused\n${JSON.stringify(trace.steps.slice(0, step), undefined, 1)}`,
  )
}

for (const [index, [name, open]] of Object.entries(stores).entries()) {
  if (!isAsked(name) || perSource === 0) continue
  const store = await open()
  const firstSeed = 1 + index * 1_000_000
  for (let seed = firstSeed; seed < firstSeed + perSource; seed += 1) {
    followed(name, seed, await recordTrace(store, seed, 25))
  }
  await store.close()
  console.log(`${name}: ${perSource} traces`)
}

if (isAsked('simulator')) {
  let [count, steps] = [0, 0]
  for (let seed = 1; count < perSource; seed += 1) {
    for (const trace of await simulatedTraces(seed)) {
      followed('simulator', seed, trace)
      count += 1
      steps += trace.steps.length
    }
  }
  console.log(`simulator: ${count} traces of ${Math.round(steps / Math.max(1, count))} steps`)
}

const { broken, refused, mutants: planted, mutantsFound, ...figures } = found
report({
  name: 'spec',
  figures: { ...figures, mutants: planted },
  bars: {
    broken: { actual: broken, atMost: 0 },
    refused: { actual: refused, atMost: 0 },
    mutantsMissed: { actual: planted - mutantsFound, atMost: 0 },
  },
})
