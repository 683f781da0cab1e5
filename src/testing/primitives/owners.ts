import { expect } from '../vitest.ts'
import type { AcquireOptions } from '../../api/options.ts'
import type { Lease } from '../../api/lease.ts'
import type { Locks } from '../../api/locks.ts'
import type { LeaseholdError } from '../../core/errors.ts'
import type { ClientGroup } from '../client/client-group.ts'
import { rejectionOf, settlesWithin } from './eventually.ts'
import type { PrimitiveFact } from './fact.ts'

type Take = (locks: Locks, name: string, options: AcquireOptions) => Promise<Lease>

const lock: Take = (locks, name, options) => locks.acquire(name, options)
const permit: Take = (locks, name, options) => locks.semaphore(name, 1, options).acquire()
const write: Take = (locks, name, options) => locks.readWrite(name, options).write()

/** Owners that enter again, wait for themselves, or for each other. */
export function owners(fact: PrimitiveFact): void {
  fact('an owner enters again with the same fence if it says so, and is told at once if not', [], async (group) => {
    const { locks, driver } = await group.member({ ttl: 10_000 })
    await locks.run('a', async (outer) => {
      await locks.run('a', { reentrant: true }, (inner) => expect(inner.fence).toBe(outer.fence))
      // Re-entry must not ask the store, which would not answer now.
      driver.plan = { hang: 1 }
      expect(await rejectionOf(locks.acquire('a'))).toMatchObject({ code: 'DEADLOCK' })
      driver.plan = {}
    })
    await group.expectClaims(0)
  })

  fact('a cycle of two is found, and costs one', ['deadlocks'], (group) => cycle(group, [lock, lock]))

  fact('a cycle of five locks, permits and writers is found, and costs one', ['queue', 'limit'], (group) =>
    cycle(group, [lock, permit, write, lock, permit]),
  )

  fact('of a cycle the one of lowest priority gives way', ['queue', 'priority'], (group) =>
    cycle(group, [lock, lock, lock], 1),
  )

  fact('siblings that wait for each other are not one owner', ['queue'], async (group) => {
    const { locks } = await group.member({ ttl: 5000 })
    const order: number[] = []
    await locks.run('a', () =>
      Promise.all(
        [1, 2].map(async (turn) => {
          await using lease = await locks.acquire('b')
          await settlesWithin(1200, new Promise(() => {}))
          if (lease.held) order.push(turn)
        }),
      ),
    )
    expect(order).toEqual([1, 2])
  })
}

/** Each client takes a lock and asks for the next client's. One must give way, and the others are granted theirs. */
async function cycle(group: ClientGroup, takes: readonly Take[], lowest?: number): Promise<void> {
  const held: Lease[] = []
  const asks: (() => Promise<Lease>)[] = []
  for (const [index, take] of takes.entries()) {
    const { locks } = await group.member({ ttl: 30_000 })
    const options: AcquireOptions = {
      owner: 'one',
      ...(lowest !== undefined && { priority: index === lowest ? 0 : 1 }),
    }
    held.push(await take(locks, `lock-${index}`, options))
    const next = (index + 1) % takes.length
    asks.push(() => (takes[next] ?? take)(locks, `lock-${next}`, options))
  }
  const gaveWay: number[] = []
  const waits = asks.map(async (ask, index) => {
    try {
      await (await ask()).release()
    } catch (error) {
      expect(error).toMatchObject({ code: 'DEADLOCK' })
      expect((error as LeaseholdError).cycle).toHaveLength(takes.length)
      gaveWay.push(index)
    }
    await held[index]?.release()
  })
  expect(await settlesWithin(20_000, Promise.all(waits))).toBe(true)
  expect(gaveWay).toHaveLength(1)
  if (lowest !== undefined) expect(gaveWay).toEqual([lowest])
}
