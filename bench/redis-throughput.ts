/** A thousand distinct keys at once on Redis: acquire and release, beside redis-semaphore, redlock and a raw socket. */
import { Redis } from 'ioredis'
import { Mutex } from 'redis-semaphore'
import { redis } from '../src/drivers/redis.ts'
import { createLocks } from '../src/index.ts'
import { RedisServer } from '../test/support/redis-server.ts'
import { interleave, report } from './report.ts'
import { RawRedis } from './support/raw-redis.ts'
import { redlockOver } from './support/redlock.ts'

const keysAtOnce = 1000
const wavesPerRound = 10
const rounds = 11
const ttlMs = 30_000

const names = Array.from({ length: keysAtOnce }, (_, index) => `orders/${index}`)

/** Pairs a second when all keys are taken and let go at once, wave after wave. */
async function pairsPerSecond(wave: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  for (let count = 0; count < wavesPerRound; count += 1) await wave()
  return (wavesPerRound * keysAtOnce * 1000) / (performance.now() - startedAt)
}

const server = await RedisServer.start()
const locks = await createLocks({ driver: redis(server.url) })
const client = new Redis(server.port)
const raw = await RawRedis.open(server.port)
const redlock = redlockOver(client)

async function leaseholdPair(name: string): Promise<void> {
  const lease = await locks.acquire(name, { ttl: ttlMs })
  await lease.release()
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

const contenders = {
  leasehold: () => pairsPerSecond(() => Promise.all(names.map(leaseholdPair))),
  redisSemaphore: () => pairsPerSecond(() => Promise.all(names.map(semaphorePair))),
  redlock: () => pairsPerSecond(() => Promise.all(names.map(redlockPair))),
  rawSocket: () => pairsPerSecond(() => raw.pairs(names, ttlMs)),
}
// All are compiled before the first round that counts.
await interleave(2, contenders)
const { medians, ratio } = await interleave(rounds, contenders)

await locks.close()
client.disconnect()
raw.close()
await server.stop()

report({
  name: 'redis-throughput',
  figures: {
    keysAtOnce,
    leaseholdPairsPerSecond: medians.leasehold,
    redisSemaphorePairsPerSecond: medians.redisSemaphore,
    redlockPairsPerSecond: medians.redlock,
    rawSocketPairsPerSecond: medians.rawSocket,
  },
  bars: {
    speedToRedisSemaphore: { actual: ratio('leasehold', 'redisSemaphore'), atLeast: 4 },
    speedToRawSocket: { actual: ratio('leasehold', 'rawSocket'), atLeast: 0.6 },
  },
})
