import { MongoClient } from 'mongodb'
import { afterAll, beforeEach, describe } from 'vitest'
import type { LockDriver } from '../../src/core/driver.ts'
import { mongodb } from '../../src/drivers/mongodb.ts'
import { primitivesConformance } from '../../src/testing/index.ts'
import { againIfItFell, forgetFalls, MongoServer } from '../support/mongo-server.ts'

const server = await MongoServer.start()
const client = new MongoClient(server.url)
beforeEach(forgetFalls)
afterAll(async () => {
  await client.close()
  await server.stop()
})

let stores = 0

describe('one server', { retry: againIfItFell }, () => {
  primitivesConformance('mongodb', {
    async open() {
      const drivers: LockDriver[] = []
      const collection = `primitives${(stores += 1)}`
      return {
        async driver() {
          const driver = mongodb(client, { collection, waitMax: 100 })
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
})
