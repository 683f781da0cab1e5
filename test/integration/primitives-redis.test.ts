import { afterAll } from 'vitest'
import type { LockDriver } from '../../src/core/driver.ts'
import { redis } from '../../src/drivers/redis.ts'
import { primitivesConformance } from '../../src/testing/index.ts'
import { RedisServer } from '../support/redis-server.ts'

const server = await RedisServer.start()
afterAll(() => server.stop())

primitivesConformance('redis', {
  async open() {
    await server.cli('FLUSHALL')
    const drivers: LockDriver[] = []
    return {
      async driver() {
        const driver = redis({ url: server.url })
        await driver.open()
        drivers.push(driver)
        return driver
      },
      advance: (ms) => new Promise((resolve) => void setTimeout(resolve, ms)),
      async close() {
        for (const driver of drivers) await driver.close()
      },
    }
  },
})
