import { afterAll, beforeAll } from 'vitest'
import type { LockDriver } from '../../src/core/driver.ts'
import { redis } from '../../src/drivers/redis.ts'
import { conformance, modelTest, type Harness } from '../../src/testing/index.ts'
import { RedisServer } from '../support/redis-server.ts'

const server = await RedisServer.start({ settings: { appendonly: 'yes', appendfsync: 'always' } })

const harness: Harness = {
  async open() {
    await server.cli('FLUSHALL')
    let time = Date.now()
    const drivers: LockDriver[] = []
    return {
      async driver() {
        const driver = redis({ url: server.url, clockForTests: () => time })
        drivers.push(driver)
        await driver.open()
        return driver
      },
      async advance(ms) {
        time += ms
      },
      async restart() {
        await server.kill()
        await server.start()
      },
      async empty() {
        await server.cli('FLUSHALL')
      },
      async close() {
        await Promise.all(drivers.map((driver) => driver.close()))
      },
    }
  },
}

conformance('redis', harness)
modelTest('redis', harness, { runs: 700, timeLimitMs: 120_000 })

beforeAll(() => {})
afterAll(() => server.stop())
