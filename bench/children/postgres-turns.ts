/** Started by `postgres-contention`, several at once: ten waiters on one lock. Prints when each had it, as JSON. */
import { setTimeout as pause } from 'node:timers/promises'
import { monotonicMs } from '../../src/core/machine/machine-clock.ts'
import { connect } from '../../src/index.ts'

export interface PostgresTurnsOrder {
  readonly url: string
  readonly waiters: number
  readonly startAt: number
  readonly endAt: number
  readonly holdMs: number
}

/** From when to when a waiter had the lock, which waiter, and its fence. */
export type Turn = readonly [from: number, to: number, waiter: number, fence: number]

const order = JSON.parse(process.argv[2] ?? '{}') as PostgresTurnsOrder
const locks = await connect(order.url)
await pause(order.startAt - monotonicMs())
const turns: Turn[] = []
await Promise.all(
  Array.from({ length: order.waiters }, async (_, waiter) => {
    while (monotonicMs() < order.endAt) {
      const lease = await locks.acquire('turns', { ttl: '30s' })
      const from = monotonicMs()
      await pause(order.holdMs)
      turns.push([from, monotonicMs(), waiter, lease.fence])
      await lease.release()
    }
  }),
)
await locks.close()
console.log(JSON.stringify(turns))
