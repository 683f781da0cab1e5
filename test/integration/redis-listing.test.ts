/** What a listing makes Redis read: as much as it shows. */
import { afterAll, afterEach, beforeEach, expect, test } from 'vitest'
import type { LockDriver, Request } from '../../src/core/contract/driver.ts'
import { redis } from '../../src/drivers/redis/driver.ts'
import { claimOf } from '../support/claims.ts'
import { RedisServer } from '../support/redis-server.ts'

const server = await RedisServer.start()
afterAll(() => server.stop())

let driver: LockDriver
beforeEach(async () => {
  await server.cli('FLUSHALL')
  driver = redis({ url: server.url })
  await driver.open()
})
afterEach(() => driver.close())

/** Makes claims to a key, of which the first holds if the claims are exclusive. */
async function crowd(key: string, count: number, change: Partial<Parameters<typeof claimOf>[1]> = {}): Promise<void> {
  const requests = Array.from({ length: count }, (_, index): Request => ({
    op: 'claim',
    claim: claimOf(key, { id: `${key} ${index}`, ...change }),
  }))
  for (let from = 0; from < count; from += 500) await driver.send(requests.slice(from, from + 500))
  await server.cli('CONFIG', 'RESETSTAT')
}

/** How many records of claims the server has read since the last crowd came. */
async function recordsRead(): Promise<number> {
  const statistics = await server.cli('INFO', 'commandstats')
  return Number(/cmdstat_hget:calls=(\d+)/.exec(statistics)?.[1] ?? 0)
}

test('of a long queue only the waiters that are shown are read, and the one that is known', async () => {
  await crowd('a', 3000)
  const page = await driver.list({ key: 'a', claims: 10, known: 'a 2500' })
  expect(page.keys[0]).toMatchObject({ held: 1, waiting: 2999 })
  expect(page.keys[0]?.claims.map(({ id }) => id)).toEqual([
    ...Array.from({ length: 10 }, (_, index) => `a ${index}`),
    'a 2500',
  ])
  expect(await recordsRead()).toBe(10)
})

test('of many holders only those that are shown are read, and the one that is known', async () => {
  await crowd('a', 3000, { mode: 'shared' })
  const page = await driver.list({ key: 'a', claims: 10, known: 'a 2500' })
  expect(page.keys[0]).toMatchObject({ held: 3000, waiting: 0 })
  expect(page.keys[0]?.claims).toHaveLength(11)
  expect(page.keys[0]?.claims.at(-1)?.id).toBe('a 2500')
  expect(await recordsRead()).toBeLessThanOrEqual(11)
})

test('a page of many long queues has every key, a bounded number of claims, and the number of all', async () => {
  for (let key = 0; key < 30; key += 1) await crowd(`key ${key}`, 500)
  const page = await driver.list({ limit: 1000 })
  expect(page.next).toBeUndefined()
  expect(page.keys).toHaveLength(30)
  const shown = page.keys.reduce((sum, { claims }) => sum + claims.length, 0)
  expect(shown).toBeGreaterThan(4000)
  expect(shown).toBeLessThan(6500)
  for (const { claims, held = 1, waiting = 499 } of page.keys) {
    expect(claims.length === 500 || held + waiting === 500).toBe(true)
  }
  expect(await recordsRead()).toBeLessThanOrEqual(shown)
})
