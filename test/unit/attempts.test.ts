import { describe, expect, test } from 'vitest'
import type { AcquireOptions } from '../../src/api/options.ts'
import type { AbsentReason, LockDriver } from '../../src/core/contract/driver.ts'
import { LeaseholdError } from '../../src/core/errors.ts'
import { webLocks } from '../../src/web-locks/index.ts'
import { around } from '../support/around.ts'
import { isSettled, locksBench } from './support/bench-of-locks.ts'

/** A lock that one client holds, for another one to ask for with these defaults. */
async function heldLock(defaults: AcquireOptions = {}) {
  const bench = locksBench()
  const [holder, other] = [await bench.client(), await bench.client({ defaults })]
  const lease = await holder.acquire('a')
  return { ...bench, holder, other, lease }
}

describe('retry, where the store keeps a queue,', () => {
  test('none does not wait, and never stands in the queue', async () => {
    const { other, holder } = await heldLock()
    await expect(other.acquire('a', { retry: 'none' })).rejects.toMatchObject({ code: 'TIMEOUT', attempts: 1 })
    expect(await other.tryAcquire('a', { retry: 'none', wait: '5s' })).toBeNull()
    await expect(other.acquireAll(['a', 'b'], { retry: 'none' })).rejects.toMatchObject({ code: 'TIMEOUT' })
    expect((await holder.inspect('a'))?.waiters).toEqual([])
    expect(await holder.inspect('b')).toBeNull()
  })

  test('standard leaves the queue after about 21 s', async () => {
    const { other, holder, advance } = await heldLock()
    const waiting = other.acquire('a', { retry: 'standard' })
    waiting.catch(() => {})
    await advance(21_000)
    expect((await holder.inspect('a'))?.waiters).toHaveLength(1)
    expect(await isSettled(waiting)).toBe(false)
    await advance(400)
    await expect(waiting).rejects.toMatchObject({ code: 'TIMEOUT', queuePosition: 0 })
    expect((await holder.inspect('a'))?.waiters).toEqual([])
  })

  test('waits no longer than wait allows, and is granted what comes in time', async () => {
    const { other, lease, advance } = await heldLock()
    const short = other.acquire('a', { retry: 'standard', wait: '1s' })
    const long = other.acquire('a', { retry: { attempts: 3, min: '2s', max: '2s' }, wait: '1h' })
    short.catch(() => {})
    await advance(1001)
    await expect(short).rejects.toMatchObject({ code: 'TIMEOUT' })
    await advance(2500)
    expect(await isSettled(long)).toBe(false)
    await lease.release()
    await advance(10)
    expect((await long).held).toBe(true)
  })

  test('bounds all that acquireAll waits for together', async () => {
    const { other, holder, advance, lease } = await heldLock()
    const second = await holder.acquire('b')
    const waiting = other.acquireAll(['a', 'b'], { retry: { attempts: 3, min: '2s', max: '2s' } })
    waiting.catch(() => {})
    await advance(3000)
    await lease.release()
    await advance(900)
    expect(await isSettled(waiting)).toBe(false)
    await advance(200)
    await expect(waiting).rejects.toMatchObject({ code: 'TIMEOUT' })
    expect(second.held).toBe(true)
  })

  test('may be said by defaults, and bounds nothing unless it is said', async () => {
    const { other, holder, advance, lease } = await heldLock({ retry: 'none' })
    await expect(other.acquire('a')).rejects.toMatchObject({ code: 'TIMEOUT' })
    await expect(other.semaphore('a', 2).acquire()).rejects.toMatchObject({ code: 'TIMEOUT' })
    await expect(other.elect('office').campaign({ wait: '1s' })).resolves.toMatchObject({ held: true })
    await expect(other.acquire('a', { wait: 0 })).rejects.toMatchObject({ code: 'HELD' })
    await expect(other.acquire('a', { onConflict: 'fail' })).rejects.toMatchObject({ code: 'HELD' })
    const unbounded = holder.acquire('a')
    await advance(600_000)
    expect(await isSettled(unbounded)).toBe(false)
    await lease.release()
    await advance(10)
    await (await unbounded).release()
  })

  test('does not bound an upgrade of what was acquired with it', async () => {
    const { client, advance } = locksBench()
    const locks = await client()
    const [mine, others] = [await locks.readWrite('a').read({ retry: 'none' }), await locks.readWrite('a').read()]
    const upgrade = mine.upgrade()
    await advance(60_000)
    expect(await isSettled(upgrade)).toBe(false)
    await others.release()
    await advance(10)
    expect((await upgrade).held).toBe(true)
  })

  test('does not bound a request of the Web Locks, which know no such thing', async () => {
    const { other, lease, advance } = await heldLock({ retry: 'none' })
    const requested = webLocks(other).request('a', () => 'granted')
    await advance(60_000)
    expect(await isSettled(requested)).toBe(false)
    await lease.release()
    await advance(10)
    expect(await requested).toBe('granted')
  })

  test('counts the attempts themselves while the store cannot be asked', async () => {
    const bench = locksBench()
    let sends = 0
    bench.wrap = (driver): LockDriver => ({
      name: driver.name,
      supports: driver.supports,
      open: () => driver.open(),
      list: (query) => driver.list(query),
      close: () => driver.close(),
      send: async () => {
        sends += 1
        throw new LeaseholdError('UNAVAILABLE', 'No way there.', { reason: 'network' })
      },
    })
    const locks = await bench.client()
    const waiting = locks.acquire('a', { retry: { attempts: 3, min: 100, max: 100 } })
    waiting.catch(() => {})
    await bench.advance(1000)
    await expect(waiting).rejects.toMatchObject({ code: 'UNAVAILABLE', attempts: 3 })
    expect(sends).toBeGreaterThanOrEqual(3)
  })
})

test('HELD and TIMEOUT say how many waited in front', async () => {
  const { other, holder, advance, lease } = await heldLock()
  await expect(other.acquire('a', { onConflict: 'fail' })).rejects.toMatchObject({ code: 'HELD', queuePosition: 0 })
  const waiting = [holder.acquire('a'), holder.acquire('a', { priority: 'low' })]
  await advance(10)
  await expect(other.acquire('a', { wait: 0 })).rejects.toMatchObject({ code: 'HELD', queuePosition: 1 })
  await expect(other.acquire('a', { wait: 0, priority: -20 })).rejects.toMatchObject({ queuePosition: 2 })
  await expect(other.acquire('a', { retry: 'none' })).rejects.toMatchObject({ code: 'TIMEOUT', queuePosition: 1 })
  await lease.release()
  await advance(10)
  await (await waiting[0])?.release()
  await advance(10)
  await (await waiting[1])?.release()
})

describe('a claim that the store loses before it is granted,', () => {
  const reasons = ['expired', 'unknown', 'released', 'evicted', 'max-hold'] as const

  /** A store that answers the first claims with `reason`, whatever is held. */
  async function losing(reason: AbsentReason, times: number) {
    const bench = locksBench()
    let lost = 0
    bench.wrap = (driver) =>
      around(driver, {
        send: async (requests) => {
          if (requests[0]?.op !== 'claim' || lost >= times) return driver.send(requests)
          lost += 1
          return requests.map(() => ({ state: 'absent', reason, detail: 'its comment was deleted' }))
        },
      })
    return { bench, locks: await bench.client() }
  }

  test.each(reasons)('%s, is made again while there is time', async (reason) => {
    const { bench, locks } = await losing(reason, 5)
    const lease = locks.acquire('a', { wait: '30s' })
    await bench.advance(30_000)
    expect((await lease).held).toBe(true)
  })

  test.each(reasons)('%s, again and again, is a TIMEOUT when the time is over, and not before', async (reason) => {
    const { bench, locks } = await losing(reason, Infinity)
    const lease = locks.acquire('a', { wait: '30s' })
    lease.catch(() => {})
    await bench.advance(29_990)
    expect(await isSettled(lease)).toBe(false)
    await bench.advance(20)
    await expect(lease).rejects.toMatchObject({ code: 'TIMEOUT' })
  })

  test.each(reasons)('%s, is made again by calls that do not wait, a few times', async (reason) => {
    const { bench, locks } = await losing(reason, 2)
    const lease = locks.tryAcquire('a')
    await bench.advance(100)
    expect((await lease)?.held).toBe(true)
    const ran = losing(reason, 2).then(async (other) => {
      const once = other.locks.once('job', { atMost: '1s' }, () => 'done')
      await other.bench.advance(100)
      return once
    })
    expect(await ran).toMatchObject({ ran: true })
  })

  test.each(reasons)('%s, each time, is null to tryAcquire', async (reason) => {
    const { bench, locks } = await losing(reason, Infinity)
    const lease = locks.tryAcquire('a')
    await bench.advance(100)
    expect(await lease).toBeNull()
    expect(await locks.tryAcquire('a', { retry: 'none' })).toBeNull()
  })
})
