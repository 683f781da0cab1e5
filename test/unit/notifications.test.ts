import { describe, expect, test } from 'vitest'
import type { OnGap, OnNotification, ClaimStatus } from '../../src/core/contract/driver.ts'
import { around } from '../support/around.ts'
import { isSettled, locksBench } from './support/bench-of-locks.ts'
import { clientOf } from '../support/client-of.ts'
import { handleOf } from '../../src/api/lease/lease-handle.ts'

/** A client whose driver can be made to say anything. */
async function setUp() {
  const bench = locksBench()
  let received: OnNotification = () => {}
  let gap: OnGap = () => {}
  let requests = 0
  bench.wrap = (driver) =>
    around(driver, {
      send(sent) {
        requests += sent.length
        return driver.send(sent)
      },
      listen(listener, onGap = () => {}) {
        received = listener
        gap = onGap
        return { [Symbol.dispose]: () => {} }
      },
    })
  const locks = await bench.client()
  bench.wrap = (driver) => driver
  const notify = (...said: unknown[]): void => (received as (...given: unknown[]) => void)(...said)
  const countRequests = (): number => {
    const counted = requests
    requests = 0
    return counted
  }
  return { bench, locks, other: await bench.client(), notify, gap: () => gap(), countRequests }
}

/** What no driver may say, and some do. */
const nonsense: readonly [string, unknown][] = [
  ['nothing', undefined],
  ['null', null],
  ['a text', 'held'],
  ['a number', 5],
  ['a state nobody knows', { state: 'mine' }],
  ['a fence that is none', { state: 'held', fence: 'x', ttlMs: 1000 }],
  ['a lease without an end', { state: 'held', fence: 5, ttlMs: Infinity }],
  ['a lease of no length', { state: 'held', fence: 5 }],
  ['null for who was before', { state: 'held', fence: 5, ttlMs: 1000, after: null }],
  ['a reason that is none', { state: 'absent', reason: 5 }],
  ['a reason to leave that is none', { state: 'held', fence: 5, ttlMs: 1000, leaving: {} }],
]

describe('a notification', () => {
  test.each(nonsense)('of %s neither throws nor ends a lease', async (_what, notification) => {
    const { bench, locks, notify } = await setUp()
    const lease = await locks.acquire('a', { ttl: '3s' })
    expect(() => notify(lease.key, handleOf(lease).claim.id, notification)).not.toThrow()
    await bench.advance(10_000)
    expect(lease.held).toBe(true)
  })

  test.each(nonsense)('of %s neither throws nor grants a lock', async (_what, notification) => {
    const { bench, locks, other, notify } = await setUp()
    const holder = await other.acquire('a')
    const waiting = locks.acquire('a')
    await bench.advance(10)
    const { waiters } = (await locks.inspect('a')) ?? { waiters: [] }
    expect(waiters).toHaveLength(1)
    const id = [...clientOf(locks).acquisitions][0]?.claimId
    expect(() => notify('default/a', id, notification)).not.toThrow()
    await bench.advance(10)
    expect(await isSettled(waiting)).toBe(false)
    await holder.release()
    await bench.advance(60_000)
    expect((await waiting).held).toBe(true)
  })

  test.each([undefined, null, 5, {}, Symbol('id')])('about %s is not heard', async (id) => {
    const { locks, notify } = await setUp()
    const lease = await locks.acquire('a')
    expect(() => notify(lease.key, id, 'poll')).not.toThrow()
    expect(lease.held).toBe(true)
  })

  test('of a grant is trusted for no longer than it says', async () => {
    const { bench, locks, other, notify } = await setUp()
    await other.acquire('a')
    const waiting = locks.acquire('a', { ttl: '30s' })
    await bench.advance(10)
    const id = [...clientOf(locks).acquisitions][0]?.claimId
    const granted: ClaimStatus = { state: 'held', fence: 7, ttlMs: 15_000 }
    notify('default/a', id, granted)
    expect((await waiting).remainingMs).toBeLessThan(15_000)
  })

  test('that a holder is to leave tells how long it still has', async () => {
    const { locks, notify } = await setUp()
    const left: number[] = []
    locks.on('leaving', ({ remainingMs }) => left.push(remainingMs))
    const lease = await locks.acquire('a', { ttl: '30s' })
    notify(lease.key, handleOf(lease).claim.id, {
      state: 'held',
      fence: lease.fence,
      ttlMs: 5000,
      leaving: 'preempted',
    })
    expect(left[0]).toBeLessThan(5000)
    expect(lease.remainingMs).toBeLessThan(5000)
  })
})

describe('a gap in the notifications', () => {
  test('makes a claim that waits poll once, and a held one not at all', async () => {
    const { bench, locks, other, gap, countRequests } = await setUp()
    await locks.acquire('held')
    const holder = await other.acquire('a')
    const waiting = locks.acquire('a')
    await bench.advance(10)
    await holder.release()
    await bench.advance(10)
    expect(await isSettled(waiting)).toBe(false)
    countRequests()
    gap()
    await bench.advance(10)
    expect([(await waiting).held, countRequests()]).toEqual([true, 1])
    gap()
    await bench.advance(10)
    expect(countRequests()).toBe(0)
  })

  test('costs a claim whose first answer is still to come no second request', async () => {
    const { bench, locks, gap, countRequests } = await setUp()
    const acquiring = locks.acquire('a')
    gap()
    await bench.advance(10)
    expect([(await acquiring).held, countRequests()]).toEqual([true, 1])
  })
})

test('a notification that cannot even be read harms nothing', async () => {
  const { locks, notify } = await setUp()
  const lease = await locks.acquire('a')
  const trap = {
    get state(): string {
      throw new Error('not for you')
    },
  }
  expect(() => notify(lease.key, handleOf(lease).claim.id, trap)).not.toThrow()
  expect(lease.held).toBe(true)
})
