import { afterAll } from 'vitest'
import type { LockDriver } from '../../src/core/driver.ts'
import { quorum } from '../../src/drivers/quorum.ts'
import { redis } from '../../src/drivers/redis.ts'
import { primitivesConformance } from '../../src/testing/index.ts'
import { RedisServer } from '../support/redis-server.ts'

const servers = await Promise.all(Array.from({ length: 3 }, () => RedisServer.start()))
afterAll(() => Promise.all(servers.map((server) => server.stop())))

primitivesConformance('a quorum of three Redis servers', {
  async open() {
    await Promise.all(servers.map((server) => server.cli('FLUSHALL')))
    const drivers: LockDriver[] = []
    return {
      async driver() {
        // They have just been started, on purpose: they may vote at once.
        const nodes = servers.map(({ url }) => redis(url))
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
