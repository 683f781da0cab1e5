import { byteRange } from '../../core/contract/scope.ts'
import type { Supports } from '../../core/contract/driver.ts'
import type { Lease } from '../../api/lease.ts'
import type { Locks } from '../../api/locks.ts'
import type { AcquireOptions } from '../../api/options.ts'
import type { LoggedWish } from '../history/event.ts'
import { RunLog, type RunLogSetting } from './run-log.ts'
import type { World } from './world.ts'

/** Where a worker lives, and what its store can do. */
export interface WorkerSetting extends RunLogSetting {
  readonly supports: Supports
  /** The shortest lease it asks for; the longest is three times that. */
  readonly ttlMinMs: number
  /** Workers in the middle of a turn. */
  readonly waiting: Set<string>
}

/** A lock to want, and how to ask for it. */
interface Wish {
  readonly wanted: LoggedWish
  readonly ask: (options: AcquireOptions) => Promise<Lease>
}

/** Takes one lock after another, of every kind that the store has, holds it for a while, and tells the history. */
export class Worker {
  readonly #setting: WorkerSetting
  readonly #runLog: RunLog

  constructor(setting: WorkerSetting) {
    this.#setting = setting
    this.#runLog = new RunLog(setting)
  }

  async work(until: number): Promise<void> {
    const { world, process, name, waiting } = this.#setting
    while (world.now < until) {
      await process.wait(world.between(0, 60))
      waiting.add(name)
      await this.#turn()
      waiting.delete(name)
    }
  }

  async #turn(): Promise<void> {
    const { wanted, ask } = anyWish(this.#setting)
    const options = { ...this.#anyOptions(), ...(wanted.priority !== undefined && { priority: wanted.priority }) }
    const attempt = this.#runLog.begin(wanted)
    const lease = await this.#runLog.attempt(attempt, () => ask(options))
    if (lease !== undefined) await this.#hold(attempt, lease)
  }

  #anyOptions(): AcquireOptions {
    const { world, ttlMinMs } = this.#setting
    return {
      ttl: world.between(ttlMinMs, 3 * ttlMinMs),
      ...(world.chance(0.2) && { heartbeat: 'manual' }),
      ...(world.chance(0.4) && { wait: world.between(10, 3 * ttlMinMs) }),
    }
  }

  /** Checks the lease, renews it, stops renewing, and releases it. */
  async #hold(attempt: string, lease: Lease): Promise<void> {
    const { world, process, ttlMinMs } = this.#setting
    for (let steps = world.between(0, 3); steps > 0; steps -= 1) {
      await process.wait(world.chance(0.2) ? world.between(ttlMinMs / 2, 2 * ttlMinMs) : world.between(1, 60))
      if (!lease.held) break
      this.#runLog.deliver({ type: 'checked', attempt })
      if (world.chance(0.1)) lease.stopHeartbeat()
      else if (world.chance(0.3)) await this.#renew(attempt, lease)
    }
    await this.#runLog.letGo(attempt, lease)
  }

  /** Renews for a ttl of another length: the trusted time may become shorter at once. */
  async #renew(attempt: string, lease: Lease): Promise<void> {
    const { world, ttlMinMs } = this.#setting
    const answered = lease.renew(world.between(ttlMinMs, 3 * ttlMinMs))
    this.#runLog.deliver({ type: 'renewed', attempt, deadline: this.#runLog.deadlineOf(lease) })
    await answered.catch((error: unknown) => this.#runLog.unlessExpected(error))
  }
}

/** Each kind has a lock of its own. */
function anyWish({ world, locks, supports }: WorkerSetting): Wish {
  const kinds = [
    orders,
    ...(supports.shared ? [book] : []),
    ...(supports.limit ? [pool] : []),
    ...(supports.range ? [file] : []),
  ]
  return (kinds[world.between(0, kinds.length - 1)] ?? orders)(world, locks, supports)
}

function orders(world: World, locks: Locks, supports: Supports): Wish {
  const priority = supports.priority && world.chance(0.2) ? 5 : 0
  return { wanted: { key: 'orders', mode: 'exclusive', priority }, ask: (options) => locks.acquire('orders', options) }
}

function book(world: World, locks: Locks): Wish {
  const lock = locks.readWrite('book')
  if (world.chance(0.4)) return { wanted: { key: 'book', mode: 'exclusive' }, ask: (options) => lock.write(options) }
  return { wanted: { key: 'book', mode: 'shared' }, ask: (options) => lock.read(options) }
}

function pool(_world: World, locks: Locks): Wish {
  const wanted: LoggedWish = { key: 'pool', mode: 'shared', limit: 2 }
  return { wanted, ask: (options) => locks.semaphore('pool', 2).acquire(options) }
}

function file(world: World, locks: Locks): Wish {
  const start = world.between(0, 5)
  const range = { start, end: start + world.between(1, 4) }
  const scope = byteRange(7, range.start, range.end)
  return { wanted: { key: 'file', mode: 'exclusive', range }, ask: (options) => locks.acquire(scope, options) }
}
