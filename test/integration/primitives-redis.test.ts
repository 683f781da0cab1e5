import { afterAll } from 'vitest'
import { redis } from '../../src/drivers/redis/driver.ts'
import { primitivesConformance } from '../../src/testing/index.ts'
import { realTimeBench } from '../support/real-time-bench.ts'
import { RedisServer } from '../support/redis-server.ts'

const server = await RedisServer.start()
afterAll(() => server.stop())

let stores = 0

primitivesConformance('redis', {
  apart: true,
  async open() {
    const prefix = `store-${(stores += 1)}:`
    return realTimeBench(() => redis({ url: server.url, prefix }))
  },
})
