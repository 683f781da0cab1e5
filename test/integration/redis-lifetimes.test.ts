import { afterAll, beforeEach, expect, test } from 'vitest'
import type { Claim, LockDriver } from '../../src/core/contract/driver.ts'
import { redis } from '../../src/drivers/redis/driver.ts'
import { hashTagOf } from '../../src/drivers/redis/hash-tags.ts'
import { claim, claimOf, claiming, release, renew } from '../support/claims.ts'
import { opened } from '../support/opened.ts'
import { RedisServer } from '../support/redis-server.ts'

// In real time: under a test's clock Redis keeps keys for an hour longer.
const server = await RedisServer.start()
afterAll(() => server.stop())
beforeEach(() => server.cli('FLUSHALL'))

const key = 'orders/1'
const minuteMs = 60_000
/** More than a test takes, and less than the shortest time that it compares. */
const slackMs = 20_000

const lasting = (minutes: number, wish: Partial<Claim> = {}): Claim =>
  claimOf(key, { ttlMs: minutes * minuteMs, ...wish })

/** For how many minutes the server keeps the shortest of the lock's keys from now on, rounded up. */
async function keptMinutes(): Promise<number> {
  const names = (await server.cli('KEYS', '*')).split('\n').filter((name) => name !== '' && !name.endsWith('fence'))
  expect(names.length).toBeGreaterThan(0)
  const lefts = await Promise.all(names.map(async (name) => Number(await server.cli('PTTL', name))))
  return Math.floor((Math.min(...lefts) + slackMs) / minuteMs)
}

/** A request that the shortcut for one request does not see: another goes with it. */
async function batched(driver: LockDriver, ...claims: readonly Claim[]): Promise<void> {
  await driver.send([...claims.map(claiming), { op: 'release', key: 'orders/2', id: 'nobody' }])
}

test('a lone claim and its renewals are kept one ttl longer than the lease', async () => {
  const driver = await opened(redis(server.url))
  const holder = lasting(2)
  await claim(driver, holder)
  expect(await keptMinutes()).toBe(4)
  await renew(driver, { ...holder, ttlMs: 5 * minuteMs })
  expect(await keptMinutes()).toBe(10)
})

test('claims and renewals of a batch are kept one ttl longer than the lease', async () => {
  const driver = await opened(redis(server.url))
  const holder = lasting(2)
  await batched(driver, holder)
  expect(await keptMinutes()).toBe(4)
  const renewal = { op: 'renew', key, id: holder.id, ttlMs: 5 * minuteMs } as const
  await driver.send([renewal, { op: 'release', key: 'orders/2', id: 'nobody' }])
  expect(await keptMinutes()).toBe(10)
})

test('a claim with a grace is kept one ttl longer than that', async () => {
  const driver = await opened(redis(server.url))
  const holder = lasting(2, { graceMs: 10 * minuteMs })
  await claim(driver, holder)
  expect(await keptMinutes()).toBe(14)
  await renew(driver, { ...holder, ttlMs: 3 * minuteMs })
  expect(await keptMinutes()).toBe(16)
})

test('a lock with short waiters is kept as long as its holder needs', async () => {
  const driver = await opened(redis(server.url))
  await claim(driver, lasting(4, { graceMs: 10 * minuteMs }))
  // The first waiter is queued by the rule, the second by its shortcut.
  for (let waiters = 1; waiters <= 2; waiters += 1) {
    await claim(driver, lasting(1))
    const name = `leasehold:{${hashTagOf(key)}}k:${key}`
    expect(Math.floor((Number(await server.cli('PTTL', name)) + slackMs) / minuteMs)).toBe(18)
  }
})

test('a queue is kept longer than its last waiter, who may ask in a batch, alone, or renew', async () => {
  const driver = await opened(redis(server.url))
  await claim(driver, lasting(200))
  // Each outlasts what was kept for those before.
  const [first, second, third] = [lasting(2), lasting(5), lasting(20)]
  await claim(driver, first)
  expect(await keptMinutes()).toBe(4)
  await claim(driver, second)
  expect(await keptMinutes()).toBe(10)
  await batched(driver, third)
  expect(await keptMinutes()).toBe(40)
  await renew(driver, { ...first, ttlMs: 50 * minuteMs })
  expect(await keptMinutes()).toBe(100)
})

test('what a hand-over leaves is kept as long as the next holder and the other waiters need', async () => {
  const driver = await opened(redis(server.url))
  const [holder, second, third] = [lasting(1), lasting(8), lasting(4)]
  for (const each of [holder, second, third]) await claim(driver, each)
  await release(driver, holder)
  expect(await renew(driver, second)).toMatchObject({ state: 'held' })
  // The queue is kept at least as long as its last waiter, and the record as long as its holder.
  expect(await keptMinutes()).toBe(16)
})
