/** What holding locks costs their process: locks taken at random moments, few and very many, on three stores. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { RedisServer } from '../test/support/redis-server.ts'
import type { HolderCost, HolderOrder } from './children/renewal-holder.ts'
import { report } from './report.ts'

const child = fileURLToPath(new URL('children/renewal-holder.js', import.meta.url))
const directory = await mkdtemp(path.join(tmpdir(), 'renewal-cost-'))
const server = await RedisServer.start()

async function hold(order: Omit<HolderOrder, 'where'>): Promise<HolderCost> {
  await server.cli('FLUSHALL')
  const where = order.store === 'redis' ? String(server.port) : path.join(directory, `${order.leases}.sqlite`)
  const { stdout } = await promisify(execFile)(process.execPath, [child, JSON.stringify({ ...order, where })])
  return JSON.parse(stdout) as HolderCost
}

// One at a time: the holders must not share the machine.
const fifty = { leases: 50, heartbeatMs: 1000, measureMs: 20_000 }
const fiftySqlite = await hold({ store: 'sqlite', ...fifty })
const fiftyRedis = await hold({ store: 'redis', ...fifty })
const hundred = { leases: 100, heartbeatMs: 5000, measureMs: 30_000 }
const hundredSqlite = await hold({ store: 'sqlite', ...hundred })
const hundredRedis = await hold({ store: 'redis', ...hundred })
const many = { leases: 100_000, heartbeatMs: 10_000, measureMs: 20_000 }
const manyMemory = await hold({ store: 'memory', ...many })
const manyRedis = await hold({ store: 'redis', ...many })
await server.stop()
await rm(directory, { recursive: true })

const all = [fiftySqlite, fiftyRedis, hundredSqlite, hundredRedis, manyMemory, manyRedis]
const percent = ({ cpuShare }: HolderCost): number => 100 * cpuShare
report({
  name: 'renewal-cost',
  figures: {
    busyMaxMemoryMs: manyMemory.busyMaxMs,
    busyMaxRedisMs: manyRedis.busyMaxMs,
  },
  bars: {
    fiftyEverySecondSqlitePercent: {
      title: 'SQLite: processor time of a process that holds 50 locks, heartbeat 1 s',
      unit: '% of a core',
      actual: percent(fiftySqlite),
      atMost: 0.5,
    },
    fiftyEverySecondRedisPercent: {
      title: 'Redis: processor time of a process that holds 50 locks, heartbeat 1 s',
      unit: '% of a core',
      actual: percent(fiftyRedis),
      atMost: 0.5,
    },
    hundredEvery5SecondsSqlitePercent: {
      title: 'SQLite: processor time of a process that holds 100 locks, heartbeat 5 s',
      unit: '% of a core',
      actual: percent(hundredSqlite),
      atMost: 0.2,
    },
    hundredEvery5SecondsRedisPercent: {
      title: 'Redis: processor time of a process that holds 100 locks, heartbeat 5 s',
      unit: '% of a core',
      actual: percent(hundredRedis),
      atMost: 0.2,
    },
    hundredThousandMemoryPercent: {
      title: 'memory: processor time of a process that holds 100,000 locks, heartbeat 10 s',
      unit: '% of a core',
      actual: percent(manyMemory),
      atMost: 15,
    },
    hundredThousandRedisPercent: {
      title: 'Redis: processor time of a process that holds 100,000 locks, heartbeat 10 s',
      unit: '% of a core',
      actual: percent(manyRedis),
      atMost: 15,
    },
    lost: {
      title: 'memory, SQLite, Redis: leases lost among these',
      actual: all.reduce((sum, { lost }) => sum + lost, 0),
      atMost: 0,
    },
  },
})
