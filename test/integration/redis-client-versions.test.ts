import * as ioredis5 from 'ioredis-5'
import * as redis4 from 'redis-4'
import * as redis5 from 'redis-5'
import { afterAll, describe, expect, test } from 'vitest'
import type { Claim, LockDriver } from '../../src/core/contract/driver.ts'
import { hashTagOf } from '../../src/drivers/redis/hash-tags.ts'
import { redis, type RedisClient } from '../../src/drivers/redis/driver.ts'
import { conformance } from '../../src/testing/index.ts'
import { eventually } from '../support/eventually.ts'
import { RedisCluster } from '../support/redis-cluster.ts'
import { RedisServer } from '../support/redis-server.ts'
import { SlotMove } from '../support/slot-move.ts'

// The versions of both client libraries before the latest, which all other tests run with.
const server = await RedisServer.start()
const cluster = await RedisCluster.start()
afterAll(() => Promise.all([server.stop(), cluster.stop()]))

interface Opened {
  readonly client: RedisClient
  readonly close: () => Promise<unknown> | void
}

const rootNodes = cluster.startNodes.map((socket) => ({ socket }))

const libraries: readonly { name: string; single: () => Promise<Opened>; cluster: () => Promise<Opened> }[] = [
  {
    name: 'ioredis 5',
    async single() {
      const client = new ioredis5.Redis(server.port)
      return { client, close: () => client.disconnect() }
    },
    async cluster() {
      const client = new ioredis5.Cluster(cluster.startNodes)
      return { client, close: () => client.disconnect() }
    },
  },
  {
    name: 'node-redis 4',
    async single() {
      const client = redis4.createClient({ url: server.url })
      return { client: await client.connect(), close: () => client.disconnect() }
    },
    async cluster() {
      const client = redis4.createCluster({ rootNodes })
      await client.connect()
      return { client, close: () => client.disconnect() }
    },
  },
  {
    name: 'node-redis 5',
    async single() {
      const client = redis5.createClient({ url: server.url })
      return { client: await client.connect(), close: () => client.destroy() }
    },
    async cluster() {
      const client = redis5.createCluster({ rootNodes })
      return { client: await client.connect(), close: () => client.destroy() }
    },
  },
]

for (const { name, single } of libraries) {
  conformance(`redis over ${name}`, {
    async open() {
      await server.cli('FLUSHALL')
      let time = Date.now()
      const { client, close } = await single()
      const drivers: LockDriver[] = []
      return {
        async driver() {
          const driver = redis({ client, clockForTests: () => time })
          drivers.push(driver)
          await driver.open()
          return driver
        },
        async advance(ms) {
          time += ms
        },
        async close() {
          await Promise.all(drivers.map((driver) => driver.close()))
          await close()
        },
      }
    },
  })
}

describe.each(libraries)('a Cluster over $name', (library) => {
  test('grants, tells those who wait, follows a slot that moves, and lists each key once', async () => {
    await cluster.empty()
    const { client, close } = await library.cluster()
    const driver = redis(client)
    try {
      await driver.open()
      const keys = Array.from({ length: 30 }, (_, index) => `orders/${index}`)
      const held = await driver.send(keys.map((key) => ({ op: 'claim', claim: claimOf(key, key) })))
      expect(held.map(({ state }) => state)).toEqual(keys.map(() => 'held'))
      const received: string[] = []
      driver.listen?.((_key, id) => received.push(id))
      await driver.send([{ op: 'claim', claim: claimOf('waiter', 'orders/0') }])
      await driver.send([{ op: 'release', key: 'orders/0', id: 'orders/0' }])
      await eventually(() => received.includes('waiter'), 'The notification')
      const move = await SlotMove.begin(cluster, `{${hashTagOf('orders/1')}}`)
      await move.move(/k:orders\/1$/)
      const renewal = { op: 'renew', key: 'orders/1', id: 'orders/1', ttlMs: 20_000 } as const
      expect(await driver.send([renewal])).toMatchObject([{ state: 'held' }])
      await move.end()
      expect(await driver.send([renewal])).toMatchObject([{ state: 'held' }])
      const { keys: listed } = await driver.list({ limit: 100 })
      expect(listed.map(({ key }) => key).toSorted((one, other) => (one < other ? -1 : 1))).toEqual(
        keys.toSorted((one, other) => (one < other ? -1 : 1)),
      )
    } finally {
      await driver.close()
      await close()
    }
  })
})

function claimOf(id: string, key: string): Claim {
  const runner = { id: 'runner', incarnation: '1', host: 'here', pid: 1, client: 'test' }
  return { id, key, mode: 'exclusive', priority: 0, wait: true, ttlMs: 20_000, graceMs: 0, runner }
}
