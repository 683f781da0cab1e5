import { afterAll, describe, expect, test } from 'vitest'
import type { Claim, LockDriver } from '../../src/core/contract/driver.ts'
import { postgres } from '../../src/drivers/postgres/driver.ts'
import { postgresAdvisory } from '../../src/drivers/postgres-advisory/driver.ts'
import { claim, claimOf, release, renew, fenceOf, claiming } from '../support/claims.ts'
import { opened } from '../support/opened.ts'
import { PostgresServer } from '../support/postgres-server.ts'

const server = await PostgresServer.start()
afterAll(() => server.destroy())

/** The server's clock in microseconds. */
async function clock(): Promise<number> {
  const [row] = await server.sql('select (extract(epoch from clock_timestamp()) * 1000000)::bigint::text as now')
  return Number(row?.['now'])
}

describe('a store restored from a copy that is older than its last fences mints none that is lower', () => {
  const schema = 'fences'
  const restore = (): Promise<unknown> =>
    server.sql(`update ${schema}.keys set last_fence = 7; update ${schema}.claims set fence = 7 where held`)

  const paths: readonly [string, (driver: LockDriver, key: string) => Promise<number>][] = [
    [
      'where a claim comes alone to an idle key',
      async (driver, key) => {
        const first = claimOf(key)
        await claim(driver, first)
        await release(driver, first)
        await restore()
        return fenceOf(await claim(driver, claimOf(key)))
      },
    ],
    [
      'where a batch of claims comes to idle keys',
      async (driver, key) => {
        const first = claimOf(key)
        await claim(driver, first)
        await release(driver, first)
        await restore()
        const statuses = await driver.send([claimOf(key), claimOf(`${key}-other`)].map(claiming))
        return fenceOf(statuses[0])
      },
    ],
    [
      'where a holder hands over to the next',
      async (driver, key) => {
        const [first, second] = [claimOf(key), claimOf(key)]
        await claim(driver, first)
        await claim(driver, second)
        await restore()
        await release(driver, first)
        return fenceOf(await renew(driver, second))
      },
    ],
    [
      'where holders that share are followed by the next',
      async (driver, key) => {
        const [first, second] = [claimOf(key, { mode: 'shared' }), claimOf(key)]
        await claim(driver, first)
        await claim(driver, second)
        await restore()
        await release(driver, first)
        return fenceOf(await renew(driver, second))
      },
    ],
    [
      'where a holder converts its claim',
      async (driver, key) => {
        const first = claimOf(key, { mode: 'shared' })
        await claim(driver, first)
        await restore()
        return fenceOf(await claim(driver, claimOf(key, { replaces: first.id })))
      },
    ],
    [
      'where a claim evicts the holder',
      async (driver, key) => {
        await claim(driver, claimOf(key))
        await restore()
        return fenceOf(await claim(driver, claimOf(key, { evict: 'all' })))
      },
    ],
  ]

  test.each(paths)('%s', async (path, take) => {
    const driver = await opened(postgres(server.url, { schema, listen: false }))
    const before = await clock()
    expect(await take(driver, path)).toBeGreaterThanOrEqual(before)
  })
})

describe('advisory locks', () => {
  const wish = (key: string): Claim => claimOf(key, { ttlMs: 20_000, wait: false })
  const driverOf = (schema: string): Promise<LockDriver> => opened(postgresAdvisory(server.url, { schema }))

  test('have fences that are no lower than the clock, also after the sequence was set back under an open session', async () => {
    const [one, other] = [await driverOf('advisory'), await driverOf('advisory')]
    let last = 0
    for (let turn = 0; turn < 20; turn += 1) {
      const before = await clock()
      const held = wish('a')
      const fence = fenceOf(await claim(turn % 2 === 0 ? one : other, held))
      expect(fence).toBeGreaterThanOrEqual(before)
      expect(fence).toBeGreaterThan(last)
      // Close to the clock: a store that is restored within a second must not be lower.
      expect(fence).toBeLessThan((await clock()) + 1_000_000)
      last = fence
      await release(turn % 2 === 0 ? one : other, held)
      if (turn % 5 === 0) await server.sql(`select setval('advisory.advisory_fences', 7)`)
    }
  })

  test('have fences that grow in each of many sessions that draw at once', async () => {
    const drivers = await Promise.all(Array.from({ length: 6 }, () => driverOf('advisory')))
    const fences = await Promise.all(
      drivers.map(async (driver, place) => {
        const drawn: number[] = []
        for (let turn = 0; turn < 50; turn += 1) {
          const held = wish(`own-${place}`)
          drawn.push(fenceOf(await claim(driver, held)))
          await release(driver, held)
        }
        return drawn
      }),
    )
    for (const drawn of fences) expect(drawn).toEqual(drawn.toSorted((one, another) => one - another))
    // No number is drawn twice.
    expect(new Set(fences.flat()).size).toBe(300)
  })

  test('of two schemas have nothing to do with each other: neither do their fences', async () => {
    const [one, other] = [await driverOf('left_side'), await driverOf('right_side')]
    const held = wish('a')
    const fence = fenceOf(await claim(one, held))
    expect(await claim(other, wish('a'))).toMatchObject({ state: 'held' })
    // Within one schema they exclude each other, and fences grow.
    const second = await driverOf('left_side')
    expect(await claim(second, wish('a'))).toMatchObject({ state: 'absent', reason: 'refused' })
    await release(one, held)
    expect(fenceOf(await claim(second, wish('a')))).toBeGreaterThan(fence)
    expect((await one.list({})).keys.map(({ key }) => key)).toEqual(['a'])
  })
})
