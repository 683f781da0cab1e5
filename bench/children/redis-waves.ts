/**
 * Started by `redis-throughput` with a contender, a port and a number of keys: on each message takes and lets go as many,
 * wave after wave, and answers with the pairs a second. A process for each, so that none pays for another's garbage.
 */
import { Redis } from 'ioredis'
import { Mutex } from 'redis-semaphore'
import { redis } from '../../src/drivers/redis/driver.ts'
import { createLocks } from '../../src/index.ts'
import { RawRedis } from '../support/raw-redis.ts'
import { redlockOver } from '../support/redlock.ts'
import { ready } from '../support/child.ts'

export type WavesContender = 'leasehold' | 'redisSemaphore' | 'redlock' | 'rawSocket'

const [contender, serverPort, keysAtOnce] = process.argv.slice(2)
const wavesPerRound = 20
const ttlMs = 30_000

const names = Array.from({ length: Number(keysAtOnce) }, (_, index) => `orders/${index}`)

/** How a contender acquires and releases all keys at once, and how it is closed. */
interface Waves {
  readonly wave: () => Promise<unknown>
  readonly close: () => Promise<void> | void
}

const makers: Record<WavesContender, (port: number) => Promise<Waves>> = {
  async leasehold(port) {
    const locks = await createLocks({ driver: redis(`redis://127.0.0.1:${port}`) })
    const pair = async (name: string): Promise<void> => {
      const lease = await locks.acquire(name, { ttl: ttlMs })
      await lease.release()
    }
    return { wave: () => Promise.all(names.map(pair)), close: () => locks.close() }
  },
  async redisSemaphore(port) {
    const client = new Redis(port)
    const pair = async (name: string): Promise<void> => {
      const mutex = new Mutex(client, name, { lockTimeout: ttlMs })
      await mutex.acquire()
      await mutex.release()
    }
    return { wave: () => Promise.all(names.map(pair)), close: () => client.disconnect() }
  },
  async redlock(port) {
    const client = new Redis(port)
    const redlock = redlockOver(client)
    const pair = async (name: string): Promise<void> => {
      const lock = await redlock.acquire([name], ttlMs)
      await lock.release()
    }
    return { wave: () => Promise.all(names.map(pair)), close: () => client.disconnect() }
  },
  async rawSocket(port) {
    const raw = await RawRedis.open(port)
    return { wave: () => raw.pairs(names, ttlMs), close: () => raw.close() }
  },
}

const { wave, close } = await makers[contender as WavesContender](Number(serverPort))

process.on('message', (message) => {
  void (message === 'end' ? end() : round())
})
ready()

async function round(): Promise<void> {
  const startedAt = performance.now()
  for (let count = 0; count < wavesPerRound; count += 1) await wave()
  process.send?.((wavesPerRound * names.length * 1000) / (performance.now() - startedAt))
}

async function end(): Promise<void> {
  await close()
  process.disconnect()
}
