import { afterAll, expect, test } from 'vitest'
import type { ClaimStatus, LockDriver, Request } from '../../src/core/contract/driver.ts'
import { modelTest, type Harness } from '../../src/testing/index.ts'
import { around } from '../support/around.ts'
import { ask, claim, claimOf, claiming, release, renew } from '../support/claims.ts'
import { expectExactEnds, expectHandOvers } from '../support/exact-end.ts'
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

test.each(['alone', 'at once'] as const)(
  'at the exact end of a lease it is over for requests that come %s',
  async (way) => {
    const bench = await alone.open()
    try {
      await expectExactEnds(await bench.driver(), (milliseconds) => bench.advance(milliseconds), way)
    } finally {
      await bench.close()
    }
  },
)

test('a hand-over to a claim that is not plain, or behind one that is over, is as the rule says', async () => {
  const bench = await alone.open()
  try {
    await expectHandOvers(await bench.driver(), (milliseconds) => bench.advance(milliseconds))
  } finally {
    await bench.close()
  }
})

test('after a hand-over an end whose time is over is forgotten, also if the clock is set back then', async () => {
  const bench = await alone.open()
  try {
    const driver = await bench.driver()
    const [dying, next, last] = [claimOf('a', { ttlMs: 1000 }), claimOf('a'), claimOf('a')]
    await driver.send([dying, next, last].map(claiming))
    await bench.advance(1000)
    // The end is kept for one ttl, so that a late copy of the claim does not begin it anew.
    expect(await renew(driver, next)).toMatchObject({ state: 'held', after: { how: 'expired' } })
    expect(await claim(driver, dying)).toMatchObject({ state: 'absent', reason: 'expired' })
    await bench.advance(1000)
    expect(await release(driver, next)).toEqual({ state: 'absent', reason: 'released' })
    await bench.advance(-500)
    expect(await claim(driver, dying)).toMatchObject({ state: 'waiting', ahead: 0 })
  } finally {
    await bench.close()
  }
})

test.each(['alone', 'at once'] as const)(
  'at the exact end of a lease a claim that does not wait is granted, if it comes %s',
  async (way) => {
    const bench = await alone.open()
    try {
      const driver = await bench.driver()
      const keys = ['a', 'b']
      for (const key of keys) await claim(driver, claimOf(key, { ttlMs: 1000 }))
      const tries = (): Request[] => keys.map((key) => claiming(claimOf(key, { wait: false })))
      const sent = async (requests: readonly Request[]): Promise<readonly ClaimStatus[]> =>
        way === 'at once' ? driver.send(requests) : Promise.all(requests.map((request) => ask(driver, request)))
      const refused = { state: 'absent', reason: 'refused' }
      await bench.advance(999)
      expect(await sent(tries())).toEqual([refused, refused])
      await bench.advance(1)
      const granted = { state: 'held', after: { how: 'expired' } }
      expect(await sent(tries())).toMatchObject([granted, granted])
    } finally {
      await bench.close()
    }
  },
)

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

modelTest('postgres in batches', neverAlone, { runs: isLong ? 500 : 60, timeLimitMs: 60_000, seed: 3 })
