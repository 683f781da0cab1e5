import { afterAll } from 'vitest'
import { mysql } from '../../src/drivers/mysql/driver.ts'
import { primitivesConformance } from '../../src/testing/index.ts'
import { MariadbServer } from '../support/mariadb-server.ts'
import { realTimeBench } from '../support/real-time-bench.ts'

const server = await MariadbServer.start()
afterAll(() => server.stop())

let tables = 0

primitivesConformance('mysql', {
  apart: true,
  async open() {
    const table = `primitives_${(tables += 1)}`
    return realTimeBench(() => mysql(server.database, { table, poolSize: 2, waitMax: 100 }))
  },
})
