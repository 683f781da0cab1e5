import { afterAll } from 'vitest'
import type { LockDriver } from '../../src/core/driver.ts'
import { postgres } from '../../src/drivers/postgres.ts'
import { primitivesConformance } from '../../src/testing/index.ts'
import { PostgresServer } from '../support/postgres-server.ts'

const server = await PostgresServer.start()
afterAll(() => server.destroy())

/** Used again: making one takes long. */
const emptySchemas: string[] = []
let schemas = 0

primitivesConformance('postgres', {
  apart: true,
  async open() {
    const drivers: LockDriver[] = []
    const schema = emptySchemas.pop() ?? `store_${(schemas += 1)}`
    return {
      async driver() {
        const driver = postgres(server.url, { schema, poolSize: 2 })
        await driver.open()
        drivers.push(driver)
        return driver
      },
      advance: (ms) => new Promise((resolve) => void setTimeout(resolve, ms)),
      async close() {
        for (const driver of drivers) await driver.close()
        await server.sql(`truncate ${schema}.keys, ${schema}.claims`)
        emptySchemas.push(schema)
      },
    }
  },
})
