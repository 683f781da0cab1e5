import { afterAll, expect, test } from 'vitest'
import { connect, createLocks } from '../../src/index.ts'
import { postgresAdvisory } from '../../src/drivers/postgres-advisory/driver.ts'
import { conformance, type Harness } from '../../src/testing/index.ts'
import { claimOf } from '../support/claims.ts'
import { opened } from '../support/opened.ts'
import { PostgresServer, freshSchema } from '../support/postgres-server.ts'
import { realTimeBench } from '../support/real-time-bench.ts'

const server = await PostgresServer.start()
afterAll(() => server.destroy())

const harness: Harness = {
  // In real time: a machine that stands still for less than the tolerance does not turn an outcome.
  tickMs: 1000,
  toleranceMs: 490,
  async open() {
    const schema = freshSchema('bench')
    return realTimeBench(
      () => postgresAdvisory(server.url, { schema }),
      () => server.sql(`drop schema ${schema} cascade`),
    )
  },
  // A session's locks end with it, only it can give them back, and nothing of them is written down.
  except: [
    'a claim outlives the driver that made it, until its ttl is over',
    'the id alone ends a claim: another driver may release it',
    'who takes over an expired lock is told whose it was',
    'a claim is listed as it was asked for',
    "times are of the store's clock and fit its now",
  ],
}

conformance('postgres-advisory', harness)

test('the presets long and batch are taken if the driver allows such leases, else the error says what to set', async () => {
  const schema = freshSchema('presets')
  const presets = ['long', 'batch'] as const
  await using short = await createLocks({ driver: postgresAdvisory(server.url, { schema }) })
  for (const lease of presets) {
    const refused = short.acquire('a', { lease })
    await expect(refused).rejects.toMatchObject({ code: 'INVALID' })
    await expect(refused).rejects.toThrow(
      new RegExp(`The ttl of lease: '${lease}' is \\d+ ms\\. .*set ttlMs of postgresAdvisory, or \\?ttl= in its URL`),
    )
  }
  await using byUrl = await connect(`${server.url.replace('postgres:', 'postgres-advisory:')}?ttl=5m&schema=${schema}`)
  await using byOption = await createLocks({ driver: postgresAdvisory(server.url, { schema, ttlMs: 300_000 }) })
  for (const locks of [byUrl, byOption]) {
    for (const lease of presets) await (await locks.acquire(lease, { lease })).release()
  }
})

test('a page has all holders of its keys, and the next one begins where it ended, however many share a lock', async () => {
  const schema = 'pages'
  // In the order of their bytes, which is not that of the strings.
  const keys = ['a', 'b', 'c', 'd', 'e', 'f', 'g', '\u{fffd}', '\u{1f512}']
  const claims = () => keys.map((key) => claimOf(key, { mode: 'shared', wait: false, ttlMs: 20_000 }))
  const drivers = Array.from({ length: 9 }, () => postgresAdvisory(server.url, { schema }))
  for (const driver of drivers) {
    await opened(driver)
    await driver.send(claims().map((claim) => ({ op: 'claim', claim })))
  }
  const page = await drivers[0]?.list({ limit: 8 })
  expect(page?.keys.map(({ key, claims: held }) => [key, held.length])).toEqual(keys.slice(0, 8).map((key) => [key, 9]))
  expect(page?.next).toBe(keys[7])
  const last = await drivers[0]?.list({ limit: 8, after: page?.next ?? '' })
  expect(last?.keys.map(({ key, claims: held }) => [key, held.length])).toEqual([[keys[8], 9]])
})
