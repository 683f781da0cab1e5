import { setTimeout as pause } from 'node:timers/promises'
import { expect } from '../vitest.ts'
import { createLocks } from '../../api/create-locks.ts'
import type { Locks } from '../../api/locks.ts'
import type { AcquireOptions } from '../../api/options.ts'
import type { ListedClaim, LockDriver } from '../../core/contract/driver.ts'
import type { EventName } from '../../api/client/events.ts'
import type { Bench, Harness } from '../bench.ts'
import { faulty, type FaultyDriver } from '../faults.ts'

/** A client, the faults between it and the store, and what it has emitted so far. */
export interface Member {
  readonly locks: Locks
  readonly driver: FaultyDriver
  /** Names of the events emitted, in their order. */
  readonly emitted: readonly EventName[]
}

const noted: readonly EventName[] = [
  'acquired',
  'renewed',
  'renewal-failed',
  'jeopardy',
  'lost',
  'released',
  'takeover',
]

/** Generous, since a shared machine may stand still for seconds: only a fault takes longer. */
const factTimeoutMs = 20_000

/** Several clients on one real store, each behind faults of its own, and a plain driver to see what the store has. */
export class ClientGroup {
  readonly observer: LockDriver
  readonly #bench: Bench
  readonly #members: Member[] = []

  private constructor(bench: Bench, observer: LockDriver) {
    this.#bench = bench
    this.observer = observer
  }

  static async open(harness: Harness): Promise<ClientGroup> {
    const bench = await harness.open()
    return new ClientGroup(bench, await bench.driver())
  }

  async member(defaults: AcquireOptions = {}): Promise<Member> {
    const driver = faulty(await this.#bench.driver(), {}, this.#members.length + 1)
    const locks = await createLocks({ driver, defaults, allowForce: true })
    const emitted: EventName[] = []
    for (const name of noted) locks.on(name, () => void emitted.push(name))
    const member = { locks, driver, emitted }
    this.#members.push(member)
    return member
  }

  /** Resolves when this member next finds a lock held by another client, whether its store has a queue or not. */
  contended({ locks }: Member): Promise<void> {
    return new Promise((resolve) => {
      const listening = locks.on('contention', () => {
        listening[Symbol.dispose]()
        resolve()
      })
    })
  }

  /** Every claim the store has, whoever made it. */
  async claims(): Promise<readonly ListedClaim[]> {
    const { now, keys } = await this.observer.list({ limit: 1000 })
    return keys.flatMap(({ claims }) => claims).filter((claim) => now < claim.expiresAt)
  }

  /** Waits until the condition holds. */
  async until(isSo: () => boolean | Promise<boolean>): Promise<void> {
    const deadline = performance.now() + factTimeoutMs
    while (!(await isSo())) {
      expect(performance.now()).toBeLessThan(deadline)
      await pause(10)
    }
  }

  /** Waits until the store has exactly so many claims. */
  async expectClaims(count: number): Promise<void> {
    const deadline = performance.now() + factTimeoutMs
    for (;;) {
      const claims = await this.claims()
      if (claims.length === count) return
      if (performance.now() > deadline) expect(claims).toHaveLength(count)
      await pause(10)
    }
  }

  async close(): Promise<void> {
    for (const { driver, locks } of this.#members) {
      driver.plan = {}
      await locks.close()
    }
    await this.#bench.close()
  }
}
