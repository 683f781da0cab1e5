import { randomBytes } from 'node:crypto'
import { afterAll, describe, expect, test } from 'vitest'
import type { Claim, Request } from '../../src/core/driver.ts'
import { postgres } from '../../src/drivers/postgres.ts'
import { claimOf } from '../support/claims.ts'
import { eventually } from '../support/eventually.ts'
import { opened } from '../support/opened.ts'
import { PostgresServer } from '../support/postgres-server.ts'

const server = await PostgresServer.start()
afterAll(() => server.destroy())

function freshSchema(): string {
  return `batches_${randomBytes(6).toString('hex')}`
}

const wanting = (wanted: Claim): Request => ({ op: 'claim', claim: wanted })

async function deadlocks(): Promise<number> {
  const [row] = await server.sql('select deadlocks::integer from pg_stat_database where datname = current_database()')
  return row?.['deadlocks'] as number
}

async function sessions(): Promise<number> {
  const others = "backend_type = 'client backend' and pid <> pg_backend_pid()"
  const [row] = await server.sql(`select count(*)::integer as sessions from pg_stat_activity where ${others}`)
  return row?.['sessions'] as number
}

describe('batches over keys that nobody used before', () => {
  test('never wait for each other in a cycle, whatever they ask and in whatever order', async () => {
    const schema = freshSchema()
    const drivers = await Promise.all([1, 2, 3, 4].map(() => opened(postgres(server.url, { schema, listen: false }))))
    const before = await deadlocks()
    for (let round = 0; round < 40; round += 1) {
      const keys = Array.from({ length: 60 }, (_, index) => `${round}-${String(index).padStart(2, '0')}`)
      // The last ones are there already: whoever locks those first and makes the others then is in the way of everybody.
      await drivers[0]?.send(keys.slice(40).map((key) => wanting(claimOf(key, { ttlMs: 1 }))))
      const batches = drivers.map((driver, place) => {
        const renewal: Request = { op: 'renew', key: keys[59] ?? '', id: 'nobody', ttlMs: 60_000 }
        const claims = keys.map((key) => wanting(claimOf(key)))
        return driver.send(place % 2 === 0 ? claims : [renewal, ...claims.toReversed()])
      })
      await Promise.all(batches)
    }
    // A session has told the server what it counted once it is gone.
    await Promise.all(drivers.map((driver) => driver.close()))
    await eventually(async () => (await sessions()) === 0, 'the end of all sessions')
    expect((await deadlocks()) - before).toBe(0)
  })
})
