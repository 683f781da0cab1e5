import { randomBytes } from 'node:crypto'
import type { LockDriver } from '../../src/core/driver.ts'
import { postgres, type PostgresOptions } from '../../src/drivers/postgres.ts'
import type { Harness } from '../../src/testing/index.ts'
import type { PostgresServer } from './postgres-server.ts'

/** A schema of its own for each bench, whose clock only the bench moves. */
export function postgresHarness(server: () => PostgresServer, options: PostgresOptions = {}): Harness {
  return {
    async open() {
      const schema = `bench_${randomBytes(6).toString('hex')}`
      const drivers: LockDriver[] = []
      const driver = async (): Promise<LockDriver> => {
        const one = postgres(server().url, { poolSize: 2, ...options, schema })
        drivers.push(one)
        await one.open()
        return one
      }
      const first = await driver()
      await server().sql(`
        create table ${schema}.hands as select date_trunc('milliseconds', now()) as time;
        create or replace function ${schema}.clock() returns timestamptz language sql volatile as
          'select time from ${schema}.hands'`)
      return {
        driver,
        async advance(ms) {
          await server().sql(`update ${schema}.hands set time = time + ${ms} * interval '1 millisecond'`)
        },
        async empty() {
          await server().sql(`truncate ${schema}.keys, ${schema}.claims`)
        },
        async close() {
          await first.close()
          await Promise.all(drivers.map((one) => one.close()))
          await server().sql(`drop schema ${schema} cascade`)
        },
      }
    },
  }
}
