import type { LockDriver } from '../../src/core/contract/driver.ts'
import { postgres, type PostgresOptions, type PostgresSource } from '../../src/drivers/postgres/driver.ts'
import type { Harness } from '../../src/testing/index.ts'
import type { PostgresServer } from './postgres-server.ts'
import { freshSchema } from './postgres-server.ts'

/** The source that a driver is given, and how it is closed afterwards. */
export interface Handed {
  readonly source: PostgresSource
  close?(): Promise<unknown>
}

/**
 * A schema of its own for each bench, whose clock only the bench moves. Schemas are used again: making one takes long. `few`:
 * how many waiters a walk visits without looking for those that may move.
 */
export function postgresHarness(
  server: PostgresServer,
  options: PostgresOptions = {},
  hand: () => Handed = () => ({ source: server.url }),
  few?: number,
): Harness {
  const emptySchemas: string[] = []

  return {
    async open() {
      const schema = emptySchemas.pop() ?? (await newSchema(server, few))
      const closings: (() => Promise<unknown>)[] = []
      return {
        async driver(): Promise<LockDriver> {
          const handed = hand()
          const driver = postgres(handed.source, { poolSize: 2, ...options, schema })
          closings.push(async () => {
            await driver.close()
            await handed.close?.()
          })
          await driver.open()
          return driver
        },
        async advance(ms) {
          await server.sql(`update ${schema}.hands set time = time + ${ms} * interval '1 millisecond'`)
        },
        async empty() {
          await server.sql(`truncate ${schema}.keys, ${schema}.claims`)
        },
        async close() {
          await Promise.all(closings.map((close) => close()))
          await server.sql(`
            truncate ${schema}.keys, ${schema}.claims;
            update ${schema}.hands set time = date_trunc('milliseconds', now())`)
          emptySchemas.push(schema)
        },
      }
    },
  }
}

async function newSchema(server: PostgresServer, few: number | undefined): Promise<string> {
  const schema = freshSchema('bench')
  const maker = postgres(server.url, { schema, listen: false })
  await maker.open()
  await maker.close()
  await server.sql(`
    create table ${schema}.hands as select date_trunc('milliseconds', now()) as time;
    create or replace function ${schema}.clock() returns timestamptz language sql volatile as
      'select time from ${schema}.hands';
    ${few === undefined ? '' : `create or replace function ${schema}.few_waiters() returns integer language sql immutable as 'select ${few}'`}`)
  return schema
}
