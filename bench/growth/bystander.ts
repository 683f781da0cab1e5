/** A client that has nothing to do with what grows: how long its pairs take, and whether it keeps its lease. */
import { fork, type ChildProcess } from 'node:child_process'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { createLocks, type Locks } from '../../src/index.ts'
import { percentile } from '../report.ts'
import { nextMessage } from '../support/child.ts'
import type { StoreName } from './curve.ts'

/** What a bystander saw since it was last asked. */
export interface Seen {
  readonly p99Us: number
  readonly lost: number
}

/** Where a bystander is. */
export interface Bystander {
  ask(): Promise<Seen>
  stop(): Promise<void>
}

const everyMs = 2

/** Acquires and releases a lock of its own again and again, and keeps another. */
export class Pairs implements Bystander {
  readonly #locks: Locks
  #tookUs: number[] = []
  #lost = 0
  #isStopped = false
  readonly #running: Promise<void>

  private constructor(locks: Locks) {
    this.#locks = locks
    locks.on('lost', () => (this.#lost += 1))
    this.#running = this.#run()
  }

  static async start(driver: LockDriver): Promise<Pairs> {
    const locks = await createLocks({ driver, namespace: 'bystander' })
    await locks.acquire('kept', { ttl: '3s' })
    return new Pairs(locks)
  }

  async ask(): Promise<Seen> {
    const seen = { p99Us: percentile(this.#tookUs, 0.99), lost: this.#lost }
    this.#tookUs = []
    this.#lost = 0
    return seen
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#running
    await this.#locks.close()
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      // From before the pause: in a process that is kept busy, a bystander begins late.
      const dueAt = performance.now() + everyMs
      await pause(everyMs)
      const lease = await this.#locks.acquire('orders/42')
      await lease.release()
      this.#tookUs.push((performance.now() - dueAt) * 1000)
    }
  }
}

/** In a process of its own. */
class Elsewhere implements Bystander {
  readonly #child: ChildProcess

  constructor(child: ChildProcess) {
    this.#child = child
  }

  ask(): Promise<Seen> {
    const answer = nextMessage(this.#child) as Promise<Seen>
    this.#child.send('ask')
    return answer
  }

  async stop(): Promise<void> {
    this.#child.disconnect()
  }
}

/** Nobody else can reach a store in memory: its bystander is in this process. */
export async function startBystander(store: StoreName, where: string, driver: () => LockDriver): Promise<Bystander> {
  if (store === 'memory') return Pairs.start(driver())
  // Without a limit of time: it ends with this process, and a curve may take long.
  const child = fork(fileURLToPath(new URL('../children/growth-bystander.js', import.meta.url)), [store, where])
  await nextMessage(child)
  return new Elsewhere(child)
}
