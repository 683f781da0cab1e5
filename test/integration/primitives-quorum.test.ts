import { afterAll } from 'vitest'
import type { LockDriver } from '../../src/core/driver.ts'
import { quorum } from '../../src/drivers/quorum.ts'
import { redis } from '../../src/drivers/redis.ts'
import { primitivesConformance } from '../../src/testing/index.ts'
import { RedisServer } from '../support/redis-server.ts'

const servers = await Promise.all(Array.from({ length: 3 }, () => RedisServer.start()))
afterAll(() => Promise.all(servers.map((server) => server.stop())))

let stores = 0

primitivesConformance('a quorum of three Redis servers', {
  apart: true,
  async open() {
    const drivers: LockDriver[] = []
    const prefix = `store-${(stores += 1)}:`
    return {
      async driver() {
        // They have just been started, on purpose: they may vote at once.
        const nodes = servers.map(({ url }) => redis({ url, prefix }))
        const driver = quorum(nodes, { votesAfter: 0 })
        drivers.push(driver)
        await driver.open()
        return driver
      },
      advance: (ms) => new Promise((resolve) => void setTimeout(resolve, ms)),
      async close() {
        await Promise.all(drivers.map((driver) => driver.close()))
      },
    }
  },
})
