import { describe, expect, test } from 'vitest'
import { LeaseholdError } from '../../src/index.ts'
import type { LockDriver, Request, Supports } from '../../src/core/contract/driver.ts'
import { isSettled, locksBench } from './support/bench-of-locks.ts'

/** A driver with other abilities, whose sends can be counted and made to fail. */
function altered(driver: LockDriver, supports: Partial<Supports>, before: (requests: readonly Request[]) => void) {
  const changed: LockDriver = {
    name: driver.name,
    supports: { ...driver.supports, ...supports },
    open: () => driver.open(),
    list: (query) => driver.list(query),
    close: () => driver.close(),
    send: async (requests) => {
      before(requests)
      return driver.send(requests)
    },
  }
  return changed
}

/** A bench whose store cannot queue, and the number of claims it has seen. */
function withoutQueue() {
  const bench = locksBench()
  const seen = { claims: 0 }
  bench.wrap = (driver) =>
    altered(driver, { queue: false, push: false }, (requests) => {
      seen.claims += requests.filter(({ op }) => op === 'claim').length
    })
  return { bench, seen }
}

/** A bench whose store is busy, and says when to come back. */
function busyStore(retryAfterMs: number, supports: Partial<Supports> = {}) {
  const bench = locksBench()
  const seen = { claims: 0, isBusy: true }
  bench.wrap = (driver) => ({
    ...altered(driver, supports, (requests) => {
      seen.claims += requests.filter(({ op }) => op === 'claim').length
      if (seen.isBusy) throw new LeaseholdError('UNAVAILABLE', 'Too many calls.', { reason: 'busy', retryAfterMs })
    }),
    ...(supports.push !== false && driver.listen && { listen: driver.listen.bind(driver) }),
  })
  return { bench, seen }
}

describe('where a store cannot queue', () => {
  test('acquire asks again, ever more patiently, until it is granted', async () => {
    const { bench, seen } = withoutQueue()
    const [one, other] = [await bench.client(), await bench.client()]
    const lease = await one.acquire('a')
    const second = other.acquire('a')
    await bench.advance(1000)
    const inTheFirstSecond = seen.claims - 1
    await bench.advance(9000)
    expect(inTheFirstSecond).toBeGreaterThan(5)
    expect(seen.claims - 1 - inTheFirstSecond).toBeLessThan(9 * inTheFirstSecond)
    expect(await isSettled(second)).toBe(false)
    await lease.release()
    await bench.advance(1000)
    expect((await second).fence).toBeGreaterThan(lease.fence)
  })

  test.each([
    ['none', 1],
    ['standard', 10],
    ['aggressive', 50],
    [{ attempts: 3, min: '1s', max: '1s', jitter: 0 }, 3],
  ] as const)('retry %j ends with TIMEOUT after %d attempts', async (retry, attempts) => {
    const { bench, seen } = withoutQueue()
    const [one, other] = [await bench.client(), await bench.client()]
    await one.acquire('a')
    const second = other.acquire('a', { retry }).catch((error: unknown) => error)
    await bench.advance(600_000)
    expect(await second).toMatchObject({ code: 'TIMEOUT', attempts })
    expect(seen.claims - 1).toBe(attempts)
  })

  test('leaves no claim behind when it gives up', async () => {
    const { bench } = withoutQueue()
    const [one, other] = [await bench.client(), await bench.client()]
    await one.acquire('a')
    const second = other.acquire('a', { wait: '1s' }).catch((error: unknown) => error)
    await bench.advance(1000)
    expect(await second).toMatchObject({ code: 'TIMEOUT' })
    expect((await one.inspect('a'))?.waiters).toEqual([])
  })
})

describe('a store that cannot push', () => {
  test('is asked by those who wait, and order holds all the same', async () => {
    const bench = locksBench()
    bench.wrap = (driver) => altered(driver, { push: false }, () => {})
    const [one, other] = [await bench.client(), await bench.client()]
    const lease = await one.acquire('a')
    const order: string[] = []
    const take = async (name: string) => {
      const mine = await other.acquire('a')
      order.push(name)
      await mine.release()
    }
    const all = [take('first'), take('second')]
    await bench.advance(1000)
    await lease.release()
    await bench.advance(3000)
    await Promise.all(all)
    expect(order).toEqual(['first', 'second'])
  })
})

describe('a store that fails', () => {
  test('is tried again while wait allows, and the lock is had when it comes back', async () => {
    const bench = locksBench()
    let broken = true
    bench.wrap = (driver) =>
      altered(driver, {}, () => {
        if (broken) throw new Error('connection refused')
      })
    const locks = await bench.client()
    const lease = locks.acquire('a', { wait: '10s' })
    await bench.advance(2000)
    broken = false
    await bench.advance(5000)
    expect((await lease).held).toBe(true)
  })

  test('is told as UNAVAILABLE, with its reason, at once when no other try can mend it', async () => {
    const bench = locksBench()
    let sends = 0
    bench.wrap = (driver) =>
      altered(driver, {}, () => {
        sends += 1
        throw new LeaseholdError('UNAVAILABLE', 'The disk is full.', { reason: 'full' })
      })
    const locks = await bench.client()
    await expect(locks.acquire('a')).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'full', attempts: 1 })
    await bench.advance(0)
    // One claim, and the release of what might have been granted.
    expect(sends).toBe(2)
    await bench.advance(60_000)
    await locks.close()
  })

  test('is told as UNAVAILABLE after ten attempts, or when wait has run out', async () => {
    const bench = locksBench()
    bench.wrap = (driver) =>
      altered(driver, {}, () => {
        throw new Error('connection refused')
      })
    const locks = await bench.client()
    const patient = locks.acquire('a').catch((error: unknown) => error)
    const hasty = locks.acquire('b', { wait: '1s' }).catch((error: unknown) => error)
    await expect(locks.tryAcquire('c')).rejects.toMatchObject({ code: 'UNAVAILABLE', attempts: 1 })
    await bench.advance(1000)
    expect(await hasty).toMatchObject({ code: 'UNAVAILABLE', reason: 'network' })
    await bench.advance(120_000)
    expect(await patient).toMatchObject({ code: 'UNAVAILABLE', attempts: 10, cause: { message: 'connection refused' } })
  })

  test('that never answers is given up when wait has run out', async () => {
    const bench = locksBench()
    bench.wrap = (driver) => ({ ...altered(driver, {}, () => {}), send: () => new Promise(() => {}) })
    const locks = await bench.client()
    const lease = locks.acquire('a', { wait: '5s' }).catch((error: unknown) => error)
    const attempt = locks.tryAcquire('b', { ttl: '2s' }).catch((error: unknown) => error)
    await bench.advance(2000)
    expect(await attempt).toMatchObject({ code: 'UNAVAILABLE', reason: 'no-answer' })
    await bench.advance(3000)
    expect(await lease).toMatchObject({ code: 'UNAVAILABLE', reason: 'no-answer' })
  })

  test.each([
    ['wait', { wait: '30s' }],
    ['wait, however many attempts there are', { wait: '30s', retry: { attempts: 1000, min: '10ms', max: '20ms' } }],
    ['the pauses of retry', { retry: 'standard' }],
    ['the pauses of retry by default', {}],
  ] as const)('is not waited for if it says to come back later than %s allows', async (_which, options) => {
    const { bench, seen } = busyStore(31_000)
    const locks = await bench.client()
    const waiting = locks.acquire('a', options).catch((error: unknown) => error)
    expect(await isSettled(waiting)).toBe(true)
    expect(await waiting).toMatchObject({ code: 'UNAVAILABLE', reason: 'busy', retryAfterMs: 31_000, attempts: 1 })
    expect(seen.claims).toBe(1)
    await locks.close()
  })

  test('is asked again when it said to come back, if that is in time, and not before', async () => {
    const { bench, seen } = busyStore(20_000)
    const locks = await bench.client()
    const waiting = locks.acquire('a', { wait: '30s' })
    await bench.advance(19_999)
    expect(seen.claims).toBe(1)
    seen.isBusy = false
    await bench.advance(1)
    expect((await waiting).held).toBe(true)
    expect(seen.claims).toBe(2)
  })

  test('is not waited for by a claim in its queue that only a poll could tell of its grant', async () => {
    const { bench, seen } = busyStore(60_000, { push: false })
    seen.isBusy = false
    const [one, other] = [await bench.client(), await bench.client()]
    await one.acquire('a', { heartbeat: 'manual', ttl: '1h' })
    const waiting = other.acquire('a', { wait: '30s' }).catch((error: unknown) => error)
    await bench.advance(1000)
    expect(await isSettled(waiting)).toBe(false)
    seen.isBusy = true
    await bench.advance(10_000)
    expect(await isSettled(waiting)).toBe(true)
    expect(await waiting).toMatchObject({ code: 'UNAVAILABLE', reason: 'busy', retryAfterMs: 60_000 })
  })

  test('that pushes may still grant a queued claim while it answers no polls', async () => {
    const { bench, seen } = busyStore(60_000)
    seen.isBusy = false
    const [one, other] = [await bench.client(), await bench.client()]
    const lease = await one.acquire('a', { ttl: '10s' })
    const waiting = other.acquire('a', { wait: '30s', ttl: '10s' })
    await bench.advance(1000)
    seen.isBusy = true
    await bench.advance(5000)
    expect(await isSettled(waiting)).toBe(false)
    seen.isBusy = false
    await lease.release()
    await bench.advance(0)
    expect((await waiting).held).toBe(true)
  })

  test('while it is being asked who holds does not keep a caller who has waited enough', async () => {
    const bench = locksBench()
    bench.wrap = (driver) => ({ ...altered(driver, {}, () => {}), list: () => new Promise(() => {}) })
    const [one, other] = [await bench.client(), await bench.client()]
    await one.acquire('a')
    const second = other.acquire('a', { wait: '1s' }).catch((error: unknown) => error)
    await bench.advance(2000)
    expect(await second).toMatchObject({ code: 'TIMEOUT', holders: [] })
  })
})
