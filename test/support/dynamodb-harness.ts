import type { DynamoDBClient } from '@aws-sdk/client-dynamodb'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { systemEnvironment } from '../../src/core/time/environment.ts'
import { Observations } from '../../src/drivers/document/observed/observations.ts'
import { ObservedDriver } from '../../src/drivers/document/observed/observed-driver.ts'
import { dynamodbStore, type DynamodbOptions } from '../../src/drivers/dynamodb/driver.ts'
import { fakeTime, type Harness } from '../../src/testing/index.ts'
import { deleteItems, freshTable } from './dynamodb-server.ts'

/**
 * A table that begins empty for each bench, whose clock only the bench moves, for all drivers: each has seen every write at once. Pauses
 * after lost races, and between reads of those who wait, pass by themselves.
 */
export function dynamodbHarness(
  client: DynamoDBClient,
  options: DynamodbOptions & { readonly restart?: () => Promise<void> } = {},
): Harness {
  const { restart, ...rest } = options
  // One for all: making a table costs the local server more than a test does.
  const table = freshTable()
  return {
    conversionsBeginAnew: true,
    async open() {
      const time = fakeTime()
      const real = systemEnvironment()
      const environment = { ...time.environment, timer: real.timer.bind(real) }
      let observations = new Observations()
      const drivers: LockDriver[] = []
      return {
        async driver() {
          const store = dynamodbStore(client, { table, createTable: true, readsPerSecond: 10_000, ...rest })
          const driver = new ObservedDriver(store, environment, { observations, watching: real })
          drivers.push(driver)
          await driver.open()
          return driver
        },
        advance: (ms) => time.advance(ms),
        ...(restart !== undefined && { restart }),
        async empty() {
          await deleteItems(client, table)
          observations = new Observations()
        },
        async close() {
          await Promise.all(drivers.map((driver) => driver.close()))
          await deleteItems(client, table)
        },
      }
    },
  }
}
