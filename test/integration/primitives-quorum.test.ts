import { afterAll } from 'vitest'
import { quorum } from '../../src/drivers/quorum/driver.ts'
import { redis } from '../../src/drivers/redis/driver.ts'
import { primitivesConformance } from '../../src/testing/index.ts'
import { realTimeBench } from '../support/real-time-bench.ts'
import { RedisServer } from '../support/redis-server.ts'

const servers = await Promise.all(Array.from({ length: 3 }, () => RedisServer.start()))
afterAll(() => Promise.all(servers.map((server) => server.stop())))

let stores = 0

primitivesConformance('a quorum of three Redis servers', {
  apart: true,
  async open() {
    const prefix = `store-${(stores += 1)}:`
    // They have just been started, on purpose: they may vote at once.
    const driver = () =>
      quorum(
        servers.map(({ url }) => redis({ url, prefix })),
        // No server fails here, and a machine that stands still for a moment must not look so.
        { votesAfter: 0, answerWithin: 5000 },
      )
    return realTimeBench(driver)
  },
})
