/** How long one call keeps an event loop or a store busy. */
import { Redis } from 'ioredis'
import type { Busy, StoreName } from './curve.ts'

const everyMs = 1
/** Redis logs commands that take longer than this. */
const slowUs = 1000

/** The longest that this process used its processor without a turn of the event loop: time taken by others does not count. */
class LoopMeter {
  #longestMs = 0
  #lastAt = performance.now()
  #lastUsage = process.cpuUsage()
  readonly #timer = setInterval(() => this.#tick(), everyMs)

  /** The longest since the last call. */
  take(): number {
    this.#tick()
    const longestMs = this.#longestMs
    this.#longestMs = 0
    return longestMs
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #tick(): void {
    const [at, usage] = [performance.now(), process.cpuUsage()]
    const usedMs = (usage.user + usage.system - this.#lastUsage.user - this.#lastUsage.system) / 1000
    this.#longestMs = Math.max(this.#longestMs, Math.min(at - this.#lastAt, usedMs))
    this.#lastAt = at
    this.#lastUsage = usage
  }
}

/** Measures the event loop of this process and, where the store can say, the store. */
export class BusyMeter {
  readonly #loop = new LoopMeter()
  readonly #redis: Redis | undefined

  constructor(store: StoreName, where: string) {
    if (store === 'redis') this.#redis = new Redis(where)
  }

  async open(): Promise<void> {
    await this.#redis?.config('SET', 'slowlog-log-slower-than', slowUs)
  }

  /** The longest since the last call. `longestAnswerMs` is what the caller saw of a server that cannot say. */
  async take(longestAnswerMs: number | undefined): Promise<Busy> {
    const loopMs = this.#loop.take()
    const storeMs = this.#redis === undefined ? longestAnswerMs : await slowestMs(this.#redis)
    // What the meter itself took is nobody's call.
    this.#loop.take()
    return storeMs === undefined ? { loopMs } : { loopMs, storeMs }
  }

  stop(): void {
    this.#loop.stop()
    this.#redis?.disconnect()
  }
}

async function slowestMs(redis: Redis): Promise<number> {
  const entries = (await redis.slowlog('GET', 100_000)) as [number, number, number, string[]][]
  await redis.slowlog('RESET')
  return entries.reduce((slowest, [, , us]) => Math.max(slowest, us / 1000), 0)
}
