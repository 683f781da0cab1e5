import { Cluster } from 'ioredis'
import { createClient, createCluster } from 'redis'
import { afterAll, describe, expect, test } from 'vitest'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { redis, type RedisOptions } from '../../src/drivers/redis/driver.ts'
import { compareWithModel, conformance, type Bench, type Harness } from '../../src/testing/index.ts'
import { around } from '../support/around.ts'
import { RedisCluster } from '../support/redis-cluster.ts'
import { RedisServer } from '../support/redis-server.ts'
import { isLong, rounds } from '../support/extent.ts'

// A restart must find what was answered: that is what appendfsync always is for.
const server = await RedisServer.start({ settings: { appendonly: 'yes', appendfsync: 'always' } })
const cluster = await RedisCluster.start()

afterAll(() => Promise.all([server.stop(), cluster.stop()]))

/** Drivers that share a clock which only the bench moves. */
function benchOf(options: () => RedisOptions, empty: () => Promise<void>, rest: Partial<Bench> = {}): Bench {
  let time = Date.now()
  const drivers: LockDriver[] = []
  return {
    async driver() {
      const driver = redis({ ...options(), clockForTests: () => time })
      drivers.push(driver)
      await driver.open()
      return driver
    },
    async advance(ms) {
      time += ms
    },
    empty,
    ...rest,
    async close() {
      await Promise.all(drivers.map((driver) => driver.close()))
      await rest.close?.()
    },
  }
}

async function flush(): Promise<void> {
  await server.cli('FLUSHALL')
}

const overUrl: Harness = {
  async open() {
    await flush()
    const restart = async (): Promise<void> => {
      await server.kill()
      await server.start()
    }
    return benchOf(() => ({ url: server.url }), flush, { restart })
  },
}

/** Each request goes in a batch, with one about a lock that nobody has. */
const neverAlone: Harness = {
  async open() {
    const bench = await overUrl.open()
    const driver = async (): Promise<LockDriver> => {
      const alone = await bench.driver()
      const idle = { op: 'release', key: 'idle', id: 'nobody' } as const
      return around(alone, { send: async (requests) => (await alone.send([...requests, idle])).slice(0, -1) })
    }
    return { ...bench, driver }
  },
}

const overNodeRedis: Harness = {
  async open() {
    await flush()
    const client = createClient({ url: server.url })
    await client.connect()
    const close = async (): Promise<void> => client.destroy()
    return benchOf(() => ({ client }), flush, { close })
  },
}

const overCluster: Harness = {
  async open() {
    await cluster.empty()
    const client = new Cluster(cluster.startNodes)
    const close = async (): Promise<void> => client.disconnect()
    return benchOf(
      () => ({ client }),
      () => cluster.empty(),
      { close },
    )
  },
}

const overNodeRedisCluster: Harness = {
  async open() {
    await cluster.empty()
    const client = createCluster({ rootNodes: cluster.startNodes.map((socket) => ({ socket })) })
    await client.connect()
    const close = async (): Promise<void> => client.destroy()
    return benchOf(
      () => ({ client }),
      () => cluster.empty(),
      { close },
    )
  },
}

conformance('redis', overUrl)
conformance('a redis cluster', overCluster)
if (isLong) {
  conformance('redis over node-redis', overNodeRedis)
  conformance('a redis cluster over node-redis', overNodeRedisCluster)
}

describe('the rule in Lua', () => {
  test('answers as the rule does on thousands of random commands', { timeout: 180_000 }, async () => {
    const { commands, counterexample } = await compareWithModel(overUrl, {
      runs: rounds(180, 700),
      timeLimitMs: 150_000,
    })
    expect(counterexample).toBeUndefined()
    expect(commands).toBeGreaterThanOrEqual(rounds(5000, 20_000))
  })

  test('answers as the rule does in batches', { timeout: 180_000 }, async () => {
    const { commands, counterexample } = await compareWithModel(neverAlone, {
      runs: rounds(90, 350),
      timeLimitMs: 150_000,
    })
    expect(counterexample).toBeUndefined()
    expect(commands).toBeGreaterThanOrEqual(rounds(2500, 10_000))
  })
})
