/** PostgreSQL, fifty waiters in five processes on one lock: how long a hand-over takes, and whether turns are fair. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Client } from 'pg'
import { monotonicMs } from '../src/core/machine/machine-clock.ts'
import { PostgresServer } from '../test/support/postgres-server.ts'
import type { PostgresRingOrder } from './children/postgres-ring.ts'
import type { PostgresTurnsOrder, Turn } from './children/postgres-turns.ts'
import { median, percentile, report } from './report.ts'

const rounds = 5
const roundMs = 3000
const floorMs = 1500
const processes = 5
const waitersPerProcess = 10
const holdMs = 1
const notifiesPerRound = 200

const run = promisify(execFile)
const server = await PostgresServer.start({ durable: true })

/** Runs a child for each order, and gives what they print. */
async function children<Printed>(name: string, orders: readonly object[]): Promise<Printed[]> {
  const file = fileURLToPath(new URL(`children/${name}.js`, import.meta.url))
  const options = { timeout: 60_000, maxBuffer: 1e8 }
  const outputs = orders.map((order) => run(process.execPath, [file, JSON.stringify(order)], options))
  return (await Promise.all(outputs)).map(({ stdout }) => JSON.parse(stdout) as Printed)
}

// The floor: a durable update with a NOTIFY, from its sending in one process to its arrival in another, with as many
// processes that listen and the same pause in between: the server wakes all of them for every notification.
async function floorBetweenProcessesMs(): Promise<number> {
  const orders = Array.from({ length: processes }, (_, place): PostgresRingOrder => {
    return { url: server.url, place, places: processes, forMs: floorMs, holdMs }
  })
  return percentile((await children<number[]>('postgres-ring', orders)).flat(), 0.5)
}

// The same without leaving a process that never sleeps: what no two processes can reach.
const [sender, listener] = [new Client(server.url), new Client(server.url)]
await Promise.all([sender.connect(), listener.connect()])
await sender.query(
  'create table floor (one integer primary key, count integer not null); insert into floor values (1, 0)',
)
await listener.query('listen one_process')
let arrived: () => void = () => {}
listener.on('notification', () => arrived())

async function notifyMs(): Promise<number> {
  const received = new Promise<void>((resolve) => (arrived = resolve))
  const startedAt = performance.now()
  const text = `with changed as (update floor set count = count + 1 where one = 1 returning count)
                select pg_notify('one_process', count::text) from changed`
  await Promise.all([sender.query({ name: 'floor', text }), received])
  return performance.now() - startedAt
}

async function floorInOneProcessMs(): Promise<number> {
  const times: number[] = []
  for (let turn = 0; turn < notifiesPerRound; turn += 1) times.push(await notifyMs())
  return percentile(times, 0.5)
}

function takeTurns(): Promise<readonly (readonly Turn[])[]> {
  const startAt = monotonicMs() + 1500
  const order: PostgresTurnsOrder = {
    url: `${server.url}?poolSize=2`,
    waiters: waitersPerProcess,
    startAt,
    endAt: startAt + roundMs,
    holdMs,
  }
  return children<readonly Turn[]>(
    'postgres-turns',
    Array.from({ length: processes }, () => order),
  )
}

/** The most turns minus the fewest while all waiters wanted turns: a process may start late. */
function unfairnessOf(logs: readonly (readonly Turn[])[]): number {
  const waiters = logs.flatMap((log) =>
    Array.from({ length: waitersPerProcess }, (_, waiter) => log.filter((turn) => turn[2] === waiter)),
  )
  const from = Math.max(...waiters.map((turns) => turns[0]?.[0] ?? Infinity))
  const to = Math.min(...waiters.map((turns) => turns.at(-1)?.[0] ?? -Infinity))
  const counts = waiters.map((turns) => turns.filter((turn) => turn[0] >= from && turn[0] <= to).length)
  // If a waiter never had a turn, there is no time in which all of them had.
  return to < from ? Infinity : Math.max(...counts) - Math.min(...counts)
}

const floors: number[] = []
const floorsInOneProcess: number[] = []
const ratios: number[] = []
const handOvers: number[] = []
let unfairness = 0
let overlaps = 0
let disorder = 0
for (let round = 0; round < rounds; round += 1) {
  const before = await floorBetweenProcessesMs()
  const logs = await takeTurns()
  const floor = (before + (await floorBetweenProcessesMs())) / 2
  floorsInOneProcess.push(await floorInOneProcessMs())
  const turns = logs.flat().toSorted((a, b) => a[0] - b[0])
  const gaps = turns.slice(1).map((turn, index) => turn[0] - (turns[index] as Turn)[1])
  overlaps += gaps.filter((gap) => gap < 0).length
  disorder += turns.slice(1).filter((turn, index) => turn[3] <= (turns[index] as Turn)[3]).length
  floors.push(floor)
  ratios.push(percentile(gaps, 0.5) / floor)
  handOvers.push(...gaps)
  unfairness = Math.max(unfairness, unfairnessOf(logs))
}
await Promise.all([sender.end(), listener.end()])
await server.destroy()

const title = 'PostgreSQL, 50 waiters in 5 processes'
report({
  name: 'postgres-contention',
  figures: {
    turns: handOvers.length + rounds,
    handOverP50Ms: percentile(handOvers, 0.5),
    handOverP99Ms: percentile(handOvers, 0.99),
    updateAndNotifyP50Ms: median(floors),
    updateAndNotifyInOneProcessP50Ms: median(floorsInOneProcess),
  },
  bars: {
    handOverToUpdateAndNotify: {
      title: `${title}: median hand-over`,
      peer: {
        name: 'a durable update and NOTIFY',
        kind: 'hand-written',
        ours: percentile(handOvers, 0.5),
        theirs: median(floors),
        unit: 'ms',
      },
      actual: median(ratios),
      atMost: 2,
    },
    overlaps: { title: `${title}: holds that overlap`, actual: overlaps, atMost: 0 },
    fencesOutOfOrder: { title: `${title}: fences out of order`, actual: disorder, atMost: 0 },
    // In a fair queue callers differ by at most the turns under way at the start and at the end.
    turnsMostLessFewest: { title: `${title}: most turns of a waiter less the fewest`, actual: unfairness, atMost: 2 },
  },
})
