import { afterAll, expect, test } from 'vitest'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { modelTest, type Harness } from '../../src/testing/index.ts'
import { around } from '../support/around.ts'
import { claim, claimOf, claiming, renew, release } from '../support/claims.ts'
import { isLong } from '../support/extent.ts'
import { postgresHarness } from '../support/postgres-harness.ts'
import { PostgresServer } from '../support/postgres-server.ts'

const server = await PostgresServer.start()
afterAll(() => server.destroy())

const alone = postgresHarness(server)

/** Each request goes in a batch, with one about a lock that nobody has. */
const neverAlone: Harness = {
  async open() {
    const bench = await alone.open()
    const driver = async (): Promise<LockDriver> => {
      const inner = await bench.driver()
      const idle = { op: 'release', key: 'idle', id: 'nobody' } as const
      return around(inner, { send: async (requests) => (await inner.send([...requests, idle])).slice(0, -1) })
    }
    return { ...bench, driver }
  },
}

modelTest('postgres in batches', neverAlone, { runs: isLong ? 500 : 60, timeLimitMs: 60_000, seed: 3 })

const over = { state: 'absent', reason: 'expired' }

for (const [way, harness] of Object.entries({ alone, 'in a batch': neverAlone })) {
  test(`at the exact end of a lease it is over for a request that comes ${way}`, async () => {
    const bench = await harness.open()
    try {
      const driver = await bench.driver()
      const [renewed, released, shared, beside] = [
        claimOf('a', { ttlMs: 1000 }),
        claimOf('b', { ttlMs: 1000 }),
        claimOf('c', { ttlMs: 1000, mode: 'shared' }),
        claimOf('c', { ttlMs: 5000, mode: 'shared' }),
      ]
      for (const each of [renewed, released, shared, beside]) await claim(driver, each)
      await bench.advance(1000)
      expect(await renew(driver, renewed)).toEqual(over)
      expect(await release(driver, released)).toEqual(over)
      expect(await renew(driver, shared)).toEqual(over)
      expect(await renew(driver, beside)).toMatchObject({ state: 'held' })
    } finally {
      await bench.close()
    }
  })
}

test('a batch of renewals beside others renews nobody who was asked to leave, or past the longest hold', async () => {
  const bench = await alone.open()
  try {
    const driver = await bench.driver()
    const readers = [claimOf('a', { mode: 'shared' }), claimOf('a', { mode: 'shared' })]
    const bounded = claimOf('b', { maxHoldMs: 70_000 })
    await driver.send([...readers, bounded].map(claiming))
    await claim(driver, claimOf('a', { priority: 1, evict: 'lower-priority' }))
    await bench.advance(20_000)
    const renewals = [...readers, bounded].map(({ key, id, ttlMs }) => ({ op: 'renew', key, id, ttlMs }) as const)
    const answers = await driver.send(renewals)
    expect(answers).toMatchObject([
      { state: 'held', ttlMs: 40_000, leaving: 'preempted' },
      { state: 'held', ttlMs: 40_000, leaving: 'preempted' },
      { state: 'held', ttlMs: 50_000 },
    ])
  } finally {
    await bench.close()
  }
})
