import { afterAll } from 'vitest'
import type { LockDriver } from '../../src/core/driver.ts'
import { postgres } from '../../src/drivers/postgres.ts'
import { primitivesConformance } from '../../src/testing/index.ts'
import { PostgresServer } from '../support/postgres-server.ts'

const server = await PostgresServer.start()
afterAll(() => server.destroy())

primitivesConformance('postgres', {
  async open() {
    const drivers: LockDriver[] = []
    return {
      async driver() {
        const driver = postgres(server.url)
        await driver.open()
        drivers.push(driver)
        return driver
      },
      advance: (ms) => new Promise((resolve) => void setTimeout(resolve, ms)),
      async close() {
        for (const driver of drivers) await driver.close()
        await server.sql('truncate leasehold.keys, leasehold.claims')
      },
    }
  },
})
