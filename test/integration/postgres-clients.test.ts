import { setImmediate as nextTurn } from 'node:timers/promises'
import { Client, Pool } from 'pg'
import postgresJs from 'postgres'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { connect, createLocks } from '../../src/index.ts'
import { postgres, type PostgresSource } from '../../src/drivers/postgres/driver.ts'
import { postgresAdvisory } from '../../src/drivers/postgres-advisory/driver.ts'
import { claim, claimOf } from '../support/claims.ts'
import { eventually } from '../support/eventually.ts'
import { opened } from '../support/opened.ts'
import { PostgresServer, freshSchema } from '../support/postgres-server.ts'

const server = await PostgresServer.start()
afterAll(() => server.destroy())

/** What a user may hand in, each with a way to see that we left it open. */
const sources: Record<string, () => Promise<PostgresSource>> = {
  async 'a Pool of pg'() {
    const pool = new Pool({ connectionString: server.url, max: 1 })
    onTestFinished(() => pool.end())
    return pool
  },
  async 'a Client of pg'() {
    const client = new Client({ connectionString: server.url })
    await client.connect()
    onTestFinished(() => client.end())
    return client
  },
  async 'an instance of postgres'() {
    const sql = postgresJs(server.url, { max: 1, onnotice: () => {} })
    onTestFinished(() => sql.end())
    return sql
  },
  async 'a URL'() {
    return server.url
  },
}

describe.each(Object.entries(sources))('%s', (_name, source) => {
  test('carries locks, their queue and the call to the next in line', async () => {
    const schema = freshSchema('clients')
    const driver = postgres(await source(), { schema })
    const locks = await createLocks({ driver })
    onTestFinished(() => locks.close())
    const others = await connect(`${server.url}?schema=${schema}`)
    onTestFinished(() => others.close())

    const held = await others.acquire('a', { ttl: '60s', metadata: { text: 'quote " \\ and \u0000' } })
    const waiting = locks.acquire('a', { ttl: '60s' })
    await eventually(async () => (await driver.list({})).keys[0]?.claims.length === 2, 'the waiter')
    const releasedAt = performance.now()
    await held.release()
    const lease = await waiting
    // Pushed: by asking alone it would have taken as long as the holder's lease.
    expect(performance.now() - releasedAt).toBeLessThan(10_000)
    expect(lease.fence).toBeGreaterThan(held.fence)
    await lease.renew()
    await lease.release()
  })
})

test.each(['camel', 'pascal', 'kebab'] as const)('postgres.js may write the names of columns in %s', async (how) => {
  const sql = postgresJs(server.url, { max: 2, onnotice: () => {}, transform: postgresJs[how] })
  onTestFinished(() => sql.end())
  const schema = `names_${how}`
  const driver = await opened(postgresAdvisory(sql, { schema }))
  const other = await opened(postgresAdvisory(server.url, { schema }))
  await claim(other, claimOf('a', { wait: false, ttlMs: 20_000 }))
  expect(await claim(driver, claimOf('a', { wait: false, ttlMs: 20_000 }))).toMatchObject({ reason: 'refused' })
  const { keys } = await driver.list({})
  expect(keys).toMatchObject([{ key: 'a', claims: [{ state: 'held', mode: 'exclusive', runner: { id: 'runner' } }] }])
  expect(await driver.dataAgeMs?.()).toBeGreaterThan(0)
  expect(keys[0]?.claims[0]?.acquiredAt).toBeGreaterThan(0)
  const leases = await opened(postgres(sql, { schema, listen: false }))
  expect(await claim(leases, claimOf('a'))).toMatchObject({ state: 'held' })
})

test('a Client of pg gets one statement at a time, however many locks are wanted', async () => {
  // Made before: to find no schema is an error, and pg tells of one before it is ready for the next statement.
  await (await connect(server.url)).close()
  const client = new Client({ connectionString: server.url })
  await client.connect()
  onTestFinished(() => client.end())
  let underWay = 0
  let most = 0
  const query = client.query.bind(client) as (...given: unknown[]) => unknown
  client.on('drain', () => (underWay = 0))
  Object.assign(client, {
    query: (...given: unknown[]) => {
      underWay += 1
      most = Math.max(most, underWay)
      return query(...given)
    },
  })
  const locks = await createLocks({ driver: postgres(client) })
  onTestFinished(() => locks.close())
  const names = Array.from({ length: 20 }, (_, index) => `name-${index}`)
  // In different turns of the event loop, and so in different batches.
  await Promise.all(
    names.map(async (name, index) => {
      for (let turn = 0; turn < index; turn += 1) await nextTurn()
      await (await locks.acquire(name)).release()
    }),
  )
  expect(most).toBe(1)
})

test('closing the locks leaves what was handed in open', async () => {
  const pool = new Pool({ connectionString: server.url, max: 2 })
  onTestFinished(() => pool.end())
  const locks = await createLocks({ driver: postgres(pool) })
  await (await locks.acquire('a')).release()
  await locks.close()
  expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }])
  await eventually(() => pool.totalCount === pool.idleCount, 'all connections at home')
})
