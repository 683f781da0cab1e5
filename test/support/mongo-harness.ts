import type { MongoClient } from 'mongodb'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { mongodb, type MongodbOptions } from '../../src/drivers/mongodb/driver.ts'
import type { Harness } from '../../src/testing/index.ts'
import { withinSeconds } from './mongo-client.ts'

/** A collection that begins empty for each bench, with a clock that only the bench moves. The client stays the caller's. */
export function mongoHarness(
  client: MongoClient,
  options: MongodbOptions & { readonly restart?: () => Promise<void> },
): Harness {
  const { restart, ...rest } = options
  return {
    async open() {
      const collection = client.db(rest.database).collection(rest.collection ?? 'DistributedLocks')
      const drivers: LockDriver[] = []
      let time = Date.now()
      await collection.deleteMany({}, withinSeconds)
      return {
        async driver() {
          const driver = mongodb(client, { ...rest, clockForTests: () => time })
          drivers.push(driver)
          await driver.open()
          return driver
        },
        async advance(ms) {
          time += ms
        },
        ...(restart !== undefined && { restart }),
        async empty() {
          await collection.drop(withinSeconds)
        },
        async close() {
          await Promise.all(drivers.map((driver) => driver.close()))
        },
      }
    },
  }
}
