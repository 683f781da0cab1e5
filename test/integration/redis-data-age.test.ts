import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { hashTags } from '../../src/drivers/redis/hash-tags.ts'
import { redis } from '../../src/drivers/redis/driver.ts'
import { claim, claimOf } from '../support/claims.ts'
import { eventually } from '../support/eventually.ts'
import { opened } from '../support/opened.ts'
import { RedisCluster } from '../support/redis-cluster.ts'
import { RedisServer, type RedisServerOptions } from '../support/redis-server.ts'
import { ServerClock } from '../support/server-clock.ts'

// An hour passes by the servers' clock alone: it is what they count by.
const hourMs = 3_600_000
const minuteMs = 60_000

interface Bench {
  readonly clock: ServerClock
  readonly start: (options?: RedisServerOptions) => Promise<RedisServer>
}

function bench(): Bench {
  const clock = new ServerClock()
  onTestFinished(() => clock.remove())
  return {
    clock,
    start: async (options = {}) => {
      const server = await RedisServer.start({ ...options, environment: clock.environment })
      onTestFinished(() => server.stop())
      return server
    },
  }
}

async function ageOf(driver: LockDriver): Promise<number> {
  return (await driver.dataAgeMs?.()) ?? Number.NaN
}

/** Redis looks at the clock for its uptime ten times a second. */
function untilOld(driver: LockDriver): Promise<boolean> {
  return eventually(async () => (await ageOf(driver)) >= hourMs, 'An hour')
}

describe('the data of a Redis', () => {
  test('is as old as its birth, which is kept with it', async () => {
    const { clock, start } = bench()
    const server = await start()
    const driver = await opened(redis(server.url))
    expect(await ageOf(driver)).toBeLessThan(minuteMs)
    clock.set(hourMs)
    await untilOld(driver)
    await untilOld(await opened(redis(server.url)))
    // Of another prefix nothing was kept so far.
    expect(await ageOf(await opened(redis({ url: server.url, prefix: 'other:' })))).toBeLessThan(minuteMs)
  })

  test.each([['FLUSHALL'], ['FLUSHDB'], ['DEL', `leasehold:{${hashTags[0]}}birth`]])(
    'is young after %s, at the very next answer',
    async (...command) => {
      const { clock, start } = bench()
      const server = await start()
      const driver = await opened(redis(server.url))
      await ageOf(driver)
      clock.set(hourMs)
      await untilOld(driver)
      await claim(driver, claimOf('a'))
      expect(await ageOf(driver)).toBeGreaterThanOrEqual(hourMs)
      await server.cli(...command)
      await claim(driver, claimOf('b'))
      expect(await ageOf(driver)).toBeLessThan(minuteMs)
      expect(await ageOf(driver)).toBeLessThan(minuteMs)
    },
  )

  test('is young after a restart, whatever was restored', async () => {
    const { clock, start } = bench()
    const server = await start({ settings: { appendonly: 'yes', appendfsync: 'always' } })
    const driver = await opened(redis(server.url))
    await ageOf(driver)
    clock.set(hourMs)
    await untilOld(driver)
    await server.kill()
    await server.start()
    const age = await eventually(() => ageOf(driver).catch(() => undefined), 'An answer')
    expect(age).toBeLessThan(minuteMs)
    // Its history is another one: nor is it old when its uptime is.
    clock.set(2 * hourMs)
    await untilOld(driver)
  })

  test('is young where a replica was promoted, however long that has been up', async () => {
    const { clock, start } = bench()
    const primary = await start({ settings: { 'repl-diskless-sync-delay': '0' } })
    const replica = await start()
    await replica.cli('REPLICAOF', '127.0.0.1', String(primary.port))
    const before = await opened(redis(primary.url))
    await ageOf(before)
    clock.set(hourMs)
    await untilOld(before)
    await eventually(async () => (await replica.cli('KEYS', '*birth')) !== '', 'The replica')
    await replica.cli('REPLICAOF', 'NO', 'ONE')
    expect(Number(/uptime_in_seconds:(\d+)/.exec(await replica.cli('INFO', 'server'))?.[1])).toBeGreaterThan(3500)
    const after = await opened(redis(replica.url))
    expect(await ageOf(after)).toBeLessThan(minuteMs)
    expect(await ageOf(before)).toBeGreaterThanOrEqual(hourMs)
  })

  test('is young when the clock is set back to before its birth', async () => {
    const { clock, start } = bench()
    const server = await start()
    const driver = await opened(redis(server.url))
    await ageOf(driver)
    clock.set(-hourMs)
    expect(await ageOf(driver)).toBeLessThan(minuteMs)
    clock.set(hourMs)
    await untilOld(driver)
  })
})

describe('the data of a Cluster', () => {
  let cluster: RedisCluster

  beforeAll(async () => {
    cluster = await RedisCluster.start()
  })
  afterAll(() => cluster.stop())

  test('is as old as that of the server that lost its own last', async () => {
    const url = `redis-cluster://${cluster.servers.map(({ port }) => `127.0.0.1:${port}`).join(',')}`
    const driver = await opened(redis(url))
    await ageOf(driver)
    const births = async (): Promise<string[]> => {
      const listed = await Promise.all(cluster.servers.map((server) => server.cli('KEYS', '*birth')))
      return listed.flatMap((names) => names.split('\n')).filter((name) => name !== '')
    }
    expect(await births()).toHaveLength(hashTags.length)
    const older = await eventually(async () => {
      const age = await ageOf(driver)
      return age >= 1000 && age
    }, 'A second')
    await cluster.servers[1]?.cli('FLUSHALL')
    expect(await ageOf(driver)).toBeLessThan(older)
    expect(await births()).toHaveLength(hashTags.length)
  })
})
