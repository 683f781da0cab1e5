import { afterAll } from 'vitest'
import { postgres } from '../../src/drivers/postgres/driver.ts'
import { primitivesConformance } from '../../src/testing/index.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { realTimeBench } from '../support/real-time-bench.ts'

const server = await PostgresServer.start()
afterAll(() => server.destroy())

/** Used again: making one takes long. */
const emptySchemas: string[] = []
let schemas = 0

primitivesConformance('postgres', {
  apart: true,
  async open() {
    const schema = emptySchemas.pop() ?? `store_${(schemas += 1)}`
    return realTimeBench(
      () => postgres(server.url, { schema, poolSize: 2 }),
      async () => {
        await server.sql(`truncate ${schema}.keys, ${schema}.claims`)
        emptySchemas.push(schema)
      },
    )
  },
})
