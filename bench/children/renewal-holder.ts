/** Started by `renewal-cost`: takes locks at random moments, lets them be renewed, and prints what that took, as JSON. */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as pause } from 'node:timers/promises'
import { memory } from '../../src/drivers/memory/driver.ts'
import { redis } from '../../src/drivers/redis/driver.ts'
import { sqlite } from '../../src/drivers/sqlite/driver.ts'
import { createLocks, type AcquireOptions, type Locks } from '../../src/index.ts'

export interface HolderOrder {
  readonly store: 'memory' | 'redis' | 'sqlite'
  /** The port of the Redis server, or the path of the SQLite file. */
  readonly where: string
  readonly leases: number
  readonly heartbeatMs: number
  readonly measureMs: number
}

export interface HolderCost {
  /** The share of one processor used while the locks were held. */
  readonly cpuShare: number
  readonly lost: number
  /** The longest that the event loop was late. */
  readonly busyMaxMs: number
}

const order = JSON.parse(process.argv[2] ?? '') as HolderOrder
const drivers = {
  memory: () => memory(),
  redis: () => redis({ url: `redis://127.0.0.1:${order.where}` }),
  sqlite: () => sqlite({ file: order.where }),
}
let lost = 0

/** Takes the locks within two heartbeats: few one by one, many in groups. */
async function takeAtRandomMoments(locks: Locks, options: AcquireOptions): Promise<void> {
  const groups = Math.min(order.leases, 500)
  const taken = Array.from({ length: groups }, async (_, group) => {
    await pause(Math.random() * 2 * order.heartbeatMs)
    const names: string[] = []
    for (let index = group; index < order.leases; index += groups) names.push(`orders/${index}`)
    await Promise.all(names.map((name) => locks.acquire(name, options)))
  })
  await Promise.all(taken)
}

const locks = await createLocks({ driver: drivers[order.store]() })
locks.on('lost', () => (lost += 1))
await takeAtRandomMoments(locks, { ttl: 3 * order.heartbeatMs, heartbeat: order.heartbeatMs })
// Warm-up, not counted: the claims come to their schedule, code is compiled, garbage of the acquires collected.
await pause(Math.max(3 * order.heartbeatMs, 5000))
const delay = monitorEventLoopDelay({ resolution: 10 })
const before = process.cpuUsage()
const startedAt = performance.now()
if (order.leases >= 10_000) delay.enable()
await pause(order.measureMs)
const { user, system } = process.cpuUsage(before)
const cpuShare = (user + system) / 1000 / (performance.now() - startedAt)
const busyMaxMs = order.leases >= 10_000 ? delay.max / 1e6 : 0
console.log(JSON.stringify({ cpuShare, lost, busyMaxMs } satisfies HolderCost))
process.exit(0)
