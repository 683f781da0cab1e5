/**
 * One lock at a time on Redis: how long acquire and release take, beside redis-semaphore, redlock and bare ioredis; and
 * our driver alone, without the client, to show what the client adds.
 */
import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import { Mutex } from 'redis-semaphore'
import { redis } from '../src/drivers/redis/driver.ts'
import { createLocks } from '../src/index.ts'
import { RedisServer } from '../test/support/redis-server.ts'
import { interleave, percentile, report } from './report.ts'
import { redlockOver } from './support/redlock.ts'

const pairsPerRound = 300
const rounds = 21
const ttlMs = 30_000

const releaseScript =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"

const server = await RedisServer.start()
const locks = await createLocks({ driver: redis(server.url) })
const driver = redis(server.url)
await driver.open()
const client = new Redis(server.port)
const redlock = redlockOver(client)
const releaseSha = String(await client.script('LOAD', releaseScript))

/** Every pair of all rounds, for the tail. */
const all: Record<string, number[]> = {}

/** The median time of one pair in microseconds. */
async function pairMicroseconds(name: string, pair: (key: string) => Promise<unknown>): Promise<number> {
  const took: number[] = []
  for (let index = 0; index < pairsPerRound; index += 1) {
    const startedAt = performance.now()
    await pair(`orders/${index}`)
    took.push((performance.now() - startedAt) * 1000)
  }
  all[name] = [...(all[name] ?? []), ...took]
  return percentile(took, 0.5)
}

async function leaseholdPair(name: string): Promise<void> {
  const lease = await locks.acquire(name, { ttl: ttlMs })
  await lease.release()
}

async function driverPair(key: string): Promise<void> {
  const id = randomUUID()
  const plain = { mode: 'exclusive', priority: 0, wait: true, ttlMs, graceMs: 0, runner: locks.runner } as const
  await driver.send([{ op: 'claim', claim: { id, key, ...plain } }])
  await driver.send([{ op: 'release', key, id }])
}

async function semaphorePair(name: string): Promise<void> {
  const mutex = new Mutex(client, name, { lockTimeout: ttlMs })
  await mutex.acquire()
  await mutex.release()
}

async function redlockPair(name: string): Promise<void> {
  const lock = await redlock.acquire([name], ttlMs)
  await lock.release()
}

async function ioredisPair(name: string): Promise<void> {
  const token = randomUUID()
  await client.set(name, token, 'PX', ttlMs, 'NX')
  await client.evalsha(releaseSha, 1, name, token)
}

const contenders = {
  leasehold: () => pairMicroseconds('leasehold', leaseholdPair),
  driverAlone: () => pairMicroseconds('driverAlone', driverPair),
  redisSemaphore: () => pairMicroseconds('redisSemaphore', semaphorePair),
  redlock: () => pairMicroseconds('redlock', redlockPair),
  ioredis: () => pairMicroseconds('ioredis', ioredisPair),
}
// All are compiled before the first round that counts.
await interleave(4, contenders)
for (const name of Object.keys(all)) all[name] = []
const { medians, ratio } = await interleave(rounds, contenders)

await locks.close()
await driver.close()
client.disconnect()
await server.stop()

const [title, unit, ours] = ['Redis, one lock at a time: p50 of a pair', 'µs', medians.leasehold] as const
report({
  name: 'redis-latency',
  figures: {
    pairsPerRound,
    leaseholdP50Microseconds: medians.leasehold,
    driverAloneP50Microseconds: medians.driverAlone,
    driverAloneToRedisSemaphore: ratio('driverAlone', 'redisSemaphore'),
    driverAloneToBareIoredis: ratio('driverAlone', 'ioredis'),
    redisSemaphoreP50Microseconds: medians.redisSemaphore,
    redlockP50Microseconds: medians.redlock,
    ioredisP50Microseconds: medians.ioredis,
    leaseholdP99Microseconds: percentile(all['leasehold'] ?? [], 0.99),
    redisSemaphoreP99Microseconds: percentile(all['redisSemaphore'] ?? [], 0.99),
  },
  bars: {
    timeToRedisSemaphore: {
      title,
      peer: { name: 'redis-semaphore', kind: 'library', ours, theirs: medians.redisSemaphore, unit },
      actual: ratio('leasehold', 'redisSemaphore'),
      atMost: 1,
    },
    timeToBareIoredis: {
      title,
      peer: {
        name: '`SET NX` and a release script over ioredis',
        kind: 'hand-written',
        ours,
        theirs: medians.ioredis,
        unit,
      },
      actual: ratio('leasehold', 'ioredis'),
      atMost: 1.15,
    },
  },
  ratios: {
    timeToRedlock: {
      title,
      peer: { name: 'redlock', kind: 'library', ours, theirs: medians.redlock, unit },
      actual: ratio('leasehold', 'redlock'),
      better: 'less',
    },
  },
})
