/** Started by `redis-renewal`: holds ten thousand locks, lets them be renewed, and prints what that took, as JSON. */
import { setTimeout as pause } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { Mutex } from 'redis-semaphore'
import { redis } from '../../src/drivers/redis/driver.ts'
import { createLocks } from '../../src/index.ts'

export interface RenewalsOrder {
  readonly port: number
  readonly library: 'leasehold' | 'redis-semaphore'
  readonly leases: number
  readonly ttlMs: number
  readonly refreshMs: number
  readonly measureMs: number
}

export interface RenewalCost {
  /** The share of one processor used while the locks were held. */
  readonly cpuShare: number
  readonly lost: number
}

const order = JSON.parse(process.argv[2] ?? '') as RenewalsOrder
const names = Array.from({ length: order.leases }, (_, index) => `orders/${index}`)
let lost = 0

/** Locks are taken one after the other in the time between two renewals, as a process that works takes them, and not in one moment. */
function eachInTurn(acquire: (name: string) => Promise<unknown>): Promise<unknown> {
  const between = order.refreshMs / order.leases
  return Promise.all(
    names.map(async (name, index) => {
      await pause(index * between)
      await acquire(name)
    }),
  )
}

async function holdWithLeasehold(): Promise<() => Promise<void>> {
  const locks = await createLocks({ driver: redis({ url: `redis://127.0.0.1:${order.port}` }) })
  locks.on('lost', () => (lost += 1))
  const options = { ttl: order.ttlMs, heartbeat: order.refreshMs }
  await eachInTurn((name) => locks.acquire(name, options))
  return () => locks.close()
}

async function holdWithRedisSemaphore(): Promise<() => Promise<void>> {
  const client = new Redis(order.port)
  const onLockLost = (): void => void (lost += 1)
  const options = { lockTimeout: order.ttlMs, refreshInterval: order.refreshMs, onLockLost }
  const mutexes = new Map(names.map((name) => [name, new Mutex(client, name, options)]))
  await eachInTurn(async (name) => mutexes.get(name)?.acquire())
  return async () => {
    for (const mutex of mutexes.values()) mutex.stopRefresh()
    client.disconnect()
  }
}

const close = await (order.library === 'leasehold' ? holdWithLeasehold() : holdWithRedisSemaphore())
// Warm-up, not counted: code is compiled, garbage of the ten thousand acquires collected, and renewals come to their schedule.
await pause(4 * order.refreshMs)
// The parent counts commands from here on.
console.log('held')
const before = process.cpuUsage()
const startedAt = performance.now()
await pause(order.measureMs)
const { user, system } = process.cpuUsage(before)
const cpuShare = (user + system) / 1000 / (performance.now() - startedAt)
console.log(JSON.stringify({ cpuShare, lost } satisfies RenewalCost))
await close()
process.exit(0)
