/**
 * Real processes on one real store, for the given minutes (default 10): 32 of them take a thousand locks in any order. Nothing
 * may overlap, be lost, be left behind or grow.
 */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { median, report } from '../bench/report.ts'
import { nextMessage } from '../bench/support/child.ts'
import { connect } from '../src/index.ts'
import { checkHistory, readHistory } from '../src/testing/index.ts'
import { RedisServer } from '../test/support/redis-server.ts'
import type { Order, Soaked, Use } from './children/soaker.ts'
import { makeFolder, removeFolder } from '../test/support/scratch-folder.ts'

const [minutes = '10', store = 'sqlite', processCount = '32', lockCount = '1000'] = process.argv.slice(2)
const areNumbers = [minutes, processCount, lockCount].every((word) => Number(word) > 0)
if (!areNumbers || !['sqlite', 'redis'].includes(store)) {
  console.error(
    'Usage: npm run prove -- soak [MINUTES] [sqlite | redis] [PROCESSES] [LOCKS], e.g. npm run prove -- soak 2 redis',
  )
  process.exit(2)
}

const runMs = Number(minutes) * 60_000
const folder = makeFolder('soak')
const server = store === 'redis' ? await RedisServer.start() : undefined
const url = server?.url ?? `sqlite:${path.join(folder, 'locks.sqlite')}`
const logs = Array.from({ length: Number(processCount) }, (_, index) => path.join(folder, `${index}.jsonl`))
const children = logs.map((log, index) => {
  const file = fileURLToPath(new URL('children/soaker.js', import.meta.url))
  return fork(file, [url, log, `process-${index}`, lockCount], { execArgv: ['--expose-gc'] })
})

try {
  await Promise.all(children.map((child) => nextMessage(child)))
  // By then all code is compiled, and all processes have notified each other once.
  const warmUpMs = Math.max(runMs / 4, Math.min(75_000, runMs / 2))
  await pause(warmUpMs)
  const before = await tellAll<Use>('measure')
  console.log(`after ${Math.round(warmUpMs / 1000)} s: ${describe(before)}`)
  await pause(runMs - warmUpMs)
  const after = await tellAll<Use>('measure')
  console.log(`at the end: ${describe(after)}`)
  const soaked = await tellAll<Soaked>('end')
  await Promise.all(children.map(ended))
  for (const miss of new Set(soaked.flatMap(({ misses }) => misses))) console.log(miss)

  const { violations, summary } = checkHistory(readHistory(logs))
  for (const { message } of violations) console.log(message)
  await using locks = await connect(url)
  const { totalLocks } = await locks.stats()
  const grown = after.map(({ heapBytes }, index) => heapBytes / (before[index]?.heapBytes ?? 0))
  const gained = after.map(({ descriptors }, index) => descriptors - (before[index]?.descriptors ?? 0))
  const holds = sum(soaked.map((soak) => soak.holds))
  report({
    name: 'soak',
    figures: {
      store,
      processes: children.length,
      locks: Number(lockCount),
      holds,
      holdsPerSecond: (holds / runMs) * 1000,
      holdsChecked: summary.holds,
      handOversChecked: summary.handOvers,
    },
    bars: {
      holdsChecked: { actual: summary.holds, atLeast: 1 },
      violations: { actual: violations.length, atMost: 0 },
      lost: { actual: sum(soaked.map((soak) => soak.lost)), atMost: 0 },
      reasonsForMissing: { actual: sum(soaked.map(({ misses }) => misses.length)), atMost: 0 },
      locksLeft: { actual: totalLocks, atMost: 0 },
      timersLeft: { actual: sum(soaked.map((soak) => soak.timers)), atMost: 0 },
      medianHeapToBefore: { actual: median(grown), atMost: 1.05 },
      medianDescriptorsGained: { actual: median(gained), atMost: 0 },
    },
  })
} finally {
  for (const child of children) child.kill('SIGKILL')
  await server?.stop()
  removeFolder(folder)
}

function tellAll<Answer>(order: Order): Promise<Answer[]> {
  return Promise.all(
    children.map((child) => {
      const answer = nextMessage(child) as Promise<Answer>
      child.send(order)
      return answer
    }),
  )
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode === null) await once(child, 'exit')
}

function describe(uses: readonly Use[]): string {
  const heapMb = median(uses.map(({ heapBytes }) => heapBytes)) / 2 ** 20
  const descriptors = median(uses.map((use) => use.descriptors))
  return `${heapMb.toFixed(1)} MB of heap, ${descriptors} descriptors, ${median(uses.map(({ timers }) => timers))} timers`
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}
