import type { Environment, Timer } from '../core/time/environment.ts'
import { seededRandom } from './random.ts'

interface PendingTimer {
  readonly at: number
  readonly order: number
  readonly action: () => void
}

/**
 * Time that only passes by `advance`, for a client (`createLocks({ environment })`) and for a memory store
 * (`memory({ clock })`) alike. Chance is seeded, so a run repeats itself to the last timer.
 */
export interface FakeTime {
  /** For `createLocks({ environment })`. */
  readonly environment: Environment
  /** For `memory({ clock })`. */
  readonly clock: { now(): number; wall(): number }
  /** Lets time pass: timers fire in order, and what they start is done before the next one fires. */
  readonly advance: (milliseconds: number) => Promise<void>
  /** Moves time on without firing anything, as when the event loop is blocked; timers are late afterwards. */
  readonly block: (milliseconds: number) => void
  /** Timers set and not yet fired. */
  readonly timers: number
}

/**
 * Fake time, starting at one o'clock for everybody.
 *
 * @example
 * ```ts
 * import { createLocks } from 'leasehold'
 * import { memory } from 'leasehold/memory'
 * import { fakeTime } from 'leasehold/testing'
 *
 * const { environment, clock, advance } = fakeTime()
 * const locks = await createLocks({ driver: memory({ clock }), environment })
 * const lease = await locks.acquire('orders/42', { ttl: '10s', heartbeat: 'manual' })
 * await advance(10_000)
 * console.assert(!lease.held)
 * ```
 */
export function fakeTime(seed = 1): FakeTime {
  let now = 3_600_000
  let order = 0
  let ids = 0
  const pending = new Set<PendingTimer>()
  const random = seededRandom(seed)
  const environment: Environment = {
    now: () => now,
    wall: () => 1_700_000_000_000 + now,
    timer(delayMs, action): Timer {
      const timer: PendingTimer = { at: now + Math.max(0, delayMs), order: (order += 1), action }
      pending.add(timer)
      return { cancel: () => void pending.delete(timer), keepAlive: () => {} }
    },
    defer: (action) => queueMicrotask(() => process.nextTick(action)),
    random,
    id: () => `id-${seed}-${(ids += 1)}`,
  }
  return {
    environment,
    clock: { now: () => now, wall: () => environment.wall() },
    async advance(milliseconds) {
      const until = now + milliseconds
      await settled()
      for (let next = earliest(pending); next !== undefined && next.at <= until; next = earliest(pending)) {
        pending.delete(next)
        now = Math.max(now, next.at)
        next.action()
        await settled()
      }
      now = until
      await settled()
    },
    block(milliseconds) {
      now += milliseconds
    },
    get timers() {
      return pending.size
    },
  }
}

function earliest(pending: ReadonlySet<PendingTimer>): PendingTimer | undefined {
  let first: PendingTimer | undefined
  for (const timer of pending) {
    if (first === undefined || timer.at < first.at || (timer.at === first.at && timer.order < first.order))
      first = timer
  }
  return first
}

/** Everything that micro-tasks and immediates have to do has been done. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) await new Promise<void>((resolve) => setImmediate(resolve))
}
