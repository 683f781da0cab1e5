/** Started by `redis-contention`, several at once: callers that take turns on one lock; prints their history as JSON. */
import { setTimeout as pause } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { Mutex } from 'redis-semaphore'
import { monotonicMs } from '../../src/core/machine/machine-clock.ts'
import { redis } from '../../src/drivers/redis/driver.ts'
import { createLocks } from '../../src/index.ts'
import type { HistoryEvent } from '../../src/testing/history/event.ts'
import { ready } from '../support/child.ts'

export interface TurnsOrder {
  readonly port: number
  readonly process: number
  readonly callers: number
  /** The retry interval of redis-semaphore; absent to use Leasehold. */
  readonly retryMs?: number
  readonly turnsMs: number
  readonly holdMs: number
}

/** What the parent says once all are ready, on the clock that all processes of the machine share. */
export interface StartSign {
  readonly startAt: number
}

interface Taken {
  readonly fence: number
  release(): Promise<unknown>
}

const order = JSON.parse(process.argv[2] ?? '') as TurnsOrder
const ttlMs = 30_000
const events: HistoryEvent[] = []

async function leasehold(): Promise<{ take: () => Promise<Taken>; close: () => Promise<void> }> {
  const locks = await createLocks({ driver: redis({ url: `redis://127.0.0.1:${order.port}` }) })
  return { take: () => locks.acquire('turns', { ttl: ttlMs }), close: () => locks.close() }
}

async function redisSemaphore(
  retryInterval: number,
): Promise<{ take: () => Promise<Taken>; close: () => Promise<void> }> {
  const client = new Redis(order.port)
  await client.ping()
  let turns = 0
  return {
    async take() {
      const mutex = new Mutex(client, 'turns', { lockTimeout: ttlMs, acquireTimeout: 60_000, retryInterval })
      await mutex.acquire()
      // redis-semaphore has no fences: for the history any number that grows with time will do.
      return { fence: (turns += 1), release: () => mutex.release() }
    },
    close: async () => client.disconnect(),
  }
}

const { take, close } = order.retryMs === undefined ? await leasehold() : await redisSemaphore(order.retryMs)

async function takeTurns(caller: string, endAt: number): Promise<void> {
  const client = `process-${order.process}`
  for (let turn = 0; monotonicMs() < endAt; turn += 1) {
    const attempt = `${caller}/${turn}`
    events.push({ at: monotonicMs(), type: 'acquire', client, attempt, key: 'turns', mode: 'exclusive' })
    const taken = await take()
    events.push({ at: monotonicMs(), type: 'granted', attempt, fence: taken.fence })
    await pause(order.holdMs)
    events.push({ at: monotonicMs(), type: 'release', attempt })
    await taken.release()
    events.push({ at: monotonicMs(), type: 'released', attempt })
  }
}

ready()
const { startAt } = await new Promise<StartSign>((resolve) => {
  process.once('message', (message) => resolve(message as StartSign))
})
await pause(Math.max(0, startAt - monotonicMs()))
const endAt = startAt + order.turnsMs
const callers = Array.from({ length: order.callers }, (_, index) => `${order.process}.${index}`)
await Promise.all(callers.map((caller) => takeTurns(caller, endAt)))
await close()
process.send?.(events, () => process.disconnect())
