/** What a listing makes PostgreSQL read and send: as much as it shows. */
import { afterAll, expect, onTestFinished, test } from 'vitest'
import type { Claim, LockDriver } from '../../src/core/contract/driver.ts'
import { postgres } from '../../src/drivers/postgres/driver.ts'
import { claimOf, claiming } from '../support/claims.ts'
import { freshSchema, PostgresServer } from '../support/postgres-server.ts'

const server = await PostgresServer.start()
afterAll(() => server.destroy())

async function openedDriver(): Promise<LockDriver> {
  const driver = postgres(server.url, { schema: freshSchema('listing'), listen: false })
  await driver.open()
  onTestFinished(() => driver.close())
  return driver
}

/** Makes claims to a key, of which the first holds if the claims are exclusive. */
async function crowd(driver: LockDriver, key: string, count: number, change: Partial<Claim> = {}): Promise<void> {
  const requests = Array.from({ length: count }, (_, index) => {
    return claiming(claimOf(key, { id: `${key} ${index}`, ...change }))
  })
  for (let from = 0; from < count; from += 500) await driver.send(requests.slice(from, from + 500))
}

test('of a long queue the first waiters are shown, the one that is known, and their number up to a thousand more', async () => {
  const driver = await openedDriver()
  await crowd(driver, 'a', 2000)
  const page = await driver.list({ key: 'a', claims: 10, known: 'a 1500' })
  expect(page.keys[0]).toMatchObject({ held: 1, waiting: 1010 })
  const first = Array.from({ length: 10 }, (_, index) => `a ${index}`)
  expect(page.keys[0]?.claims.map(({ id }) => id)).toEqual([...first, 'a 1500'])
  const known = await driver.list({ key: 'a', claims: 10, known: 'a 5' })
  expect(known.keys[0]?.claims.map(({ id }) => id)).toEqual(first)
})

test('of many holders the first are shown, the one that is known, and their number up to a thousand more', async () => {
  const driver = await openedDriver()
  await crowd(driver, 'a', 1500, { mode: 'shared' })
  const page = await driver.list({ key: 'a', claims: 10, known: 'a 700' })
  expect(page.keys[0]).toMatchObject({ held: 1010, waiting: 0 })
  expect(page.keys[0]?.claims).toHaveLength(11)
  expect(page.keys[0]?.claims.at(-1)?.id).toBe('a 700')
})

test('a page of many long queues ends early, and the pages together have every claim', async () => {
  const driver = await openedDriver()
  for (let key = 0; key < 12; key += 1) await crowd(driver, `key ${key}`, 500)
  const first = await driver.list({ limit: 1000 })
  expect(first.keys).toHaveLength(10)
  expect(first.next).toBe(first.keys.at(-1)?.key)
  const second = await driver.list({ limit: 1000, ...(first.next !== undefined && { after: first.next }) })
  expect(second.keys).toHaveLength(2)
  expect(second.next).toBeUndefined()
  for (const { claims } of [...first.keys, ...second.keys]) expect(claims).toHaveLength(500)
})
