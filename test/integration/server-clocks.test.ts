import { describe, expect, onTestFinished, test } from 'vitest'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { postgres } from '../../src/drivers/postgres/driver.ts'
import { redis } from '../../src/drivers/redis/driver.ts'
import { memoryGuard } from '../../src/guards/index.ts'
import { claim, claimOf, release, renew, fenceOf } from '../support/claims.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { RedisServer } from '../support/redis-server.ts'
import { ServerClock } from '../support/server-clock.ts'
import { locksOn, opened } from '../support/opened.ts'

/** A server whose clock the test sets, and a way to as many drivers of it as the test likes. */
interface Bench {
  readonly clock: ServerClock
  readonly open: () => Promise<LockDriver>
}

const hourMs = 3_600_000

async function onRedis(): Promise<Bench> {
  const clock = new ServerClock()
  const server = await RedisServer.start({ environment: clock.environment })
  onTestFinished(async () => {
    await server.stop()
    clock.remove()
  })
  return { clock, open: () => opened(redis(server.url)) }
}

async function onPostgres(): Promise<Bench> {
  const clock = new ServerClock()
  const server = await PostgresServer.start({ environment: clock.environment })
  onTestFinished(async () => {
    await server.destroy()
    clock.remove()
  })
  return { clock, open: () => opened(postgres(server.url)) }
}

describe.each([
  ['Redis', onRedis],
  ['PostgreSQL', onPostgres],
])('the clock of a real %s', (_name, bench) => {
  test('is the one that leases end by', async () => {
    const { clock, open } = await bench()
    const driver = await open()
    const before = (await driver.list({})).now
    clock.set(hourMs)
    expect((await driver.list({})).now).toBeGreaterThanOrEqual(before + hourMs)
    clock.set(-hourMs)
    expect((await driver.list({})).now).toBeLessThan(before)
  })

  test('set ahead past the ttl ends a lease early: the next fence is higher, and a guard refuses the first holder', async () => {
    const { clock, open } = await bench()
    const driver = await open()
    const guard = memoryGuard()
    const holder = claimOf('a')
    const waiter = claimOf('a', { ttlMs: 2 * hourMs })
    const first = fenceOf(await claim(driver, holder))
    expect(await claim(driver, waiter)).toMatchObject({ state: 'waiting' })
    guard.check('a', first)
    clock.set(hourMs)
    const second = fenceOf(await renew(driver, waiter))
    expect(second).toBeGreaterThan(first)
    guard.check('a', second)
    expect(() => guard.check('a', first)).toThrow('LOST')
    expect(await renew(driver, holder)).toMatchObject({ state: 'absent' })
  })

  test('set ahead past the ttl: the holder hears of it when it next renews, though it trusted its lease', async () => {
    const { clock, open } = await bench()
    const locks = await locksOn(await open())
    const lease = await locks.acquire('a', { ttl: '10m', heartbeat: 'manual' })
    clock.set(hourMs)
    expect(lease.signal.aborted).toBe(false)
    await expect(lease.renew()).rejects.toMatchObject({ code: 'NOT_HELD' })
    expect(lease.signal.aborted).toBe(true)
    await using next = await locks.acquire('a', { ttl: '10m' })
    expect(next.fence).toBeGreaterThan(lease.fence)
  })

  test('set back leaves a lease its ttl and no more', async () => {
    const { clock, open } = await bench()
    const driver = await open()
    const holder = claimOf('a')
    const fence = fenceOf(await claim(driver, holder))
    clock.set(-hourMs)
    const waiting = await claim(driver, claimOf('a', { ttlMs: hourMs }))
    expect(waiting).toMatchObject({ state: 'waiting' })
    expect((waiting as { againMs: number }).againMs).toBeLessThanOrEqual(holder.ttlMs)
    const renewed = await renew(driver, holder)
    expect(fenceOf(renewed)).toBe(fence)
    expect((renewed as { ttlMs: number }).ttlMs).toBe(holder.ttlMs)
  })

  test('set back locks nobody out: a holder and a waiter that died are gone a ttl later, not an hour', async () => {
    const { clock, open } = await bench()
    const driver = await open()
    const locks = await locksOn(await open())
    const key = 'default/named:a'
    const dead = claimOf(key, { ttlMs: 3000 })
    const fence = fenceOf(await claim(driver, dead))
    expect(await claim(driver, claimOf(key, { ttlMs: 3000 }))).toMatchObject({ state: 'waiting' })
    clock.set(-hourMs)
    await using lease = await locks.acquire('a', { ttl: '10s', wait: '60s' })
    expect(lease.fence).toBeGreaterThan(fence)
  })

  test('set ahead and back again lets no fence fall', async () => {
    const { clock, open } = await bench()
    const driver = await open()
    let last = 0
    for (const offsetMs of [0, hourMs, 0, -hourMs, 2 * hourMs, 0]) {
      clock.set(offsetMs)
      for (const one of [claimOf('a'), claimOf('a')]) {
        const fence = fenceOf(await claim(driver, one))
        expect(fence).toBeGreaterThan(last)
        last = fence
        expect(await release(driver, one)).toEqual({ state: 'absent', reason: 'released' })
      }
    }
  })
})
