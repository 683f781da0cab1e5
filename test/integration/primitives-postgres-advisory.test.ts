import { afterAll } from 'vitest'
import type { LockDriver } from '../../src/core/driver.ts'
import { postgresAdvisory } from '../../src/drivers/postgres-advisory.ts'
import { primitivesConformance } from '../../src/testing/index.ts'
import { PostgresServer } from '../support/postgres-server.ts'

const server = await PostgresServer.start()
afterAll(() => server.destroy())

primitivesConformance('postgres-advisory', {
  async open() {
    const drivers: LockDriver[] = []
    return {
      async driver() {
        const driver = postgresAdvisory(server.url)
        drivers.push(driver)
        await driver.open()
        return driver
      },
      advance: (ms) => new Promise((resolve) => void setTimeout(resolve, ms)),
      // Sessions end with their drivers, and so do all their locks.
      close: async () => void (await Promise.all(drivers.map((driver) => driver.close()))),
    }
  },
})
