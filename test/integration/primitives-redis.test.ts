import { afterAll } from 'vitest'
import type { LockDriver } from '../../src/core/driver.ts'
import { redis } from '../../src/drivers/redis.ts'
import { primitivesConformance } from '../../src/testing/index.ts'
import { RedisServer } from '../support/redis-server.ts'

const server = await RedisServer.start()
afterAll(() => server.stop())

let stores = 0

primitivesConformance('redis', {
  apart: true,
  async open() {
    const drivers: LockDriver[] = []
    const prefix = `store-${(stores += 1)}:`
    return {
      async driver() {
        const driver = redis({ url: server.url, prefix })
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
