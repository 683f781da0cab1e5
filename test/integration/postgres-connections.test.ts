import { setTimeout as pause } from 'node:timers/promises'
import { Client, Pool } from 'pg'
import postgresJs from 'postgres'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { createLocks } from '../../src/index.ts'
import { postgres, type PostgresSource } from '../../src/drivers/postgres/driver.ts'
import { postgresAdvisory } from '../../src/drivers/postgres-advisory/driver.ts'
import { claim, claimOf, release, renew } from '../support/claims.ts'
import { eventually } from '../support/eventually.ts'
import { opened } from '../support/opened.ts'
import { PostgresServer, freshSchema } from '../support/postgres-server.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'

const server = await PostgresServer.start({ settings: { max_wal_senders: 4 } })
afterAll(() => server.destroy())

const schema = freshSchema('connections')

/** A way to the server on which connections can be counted and silenced. */
async function wayTo({ port }: { readonly port: number }): Promise<{ proxy: TcpProxy; url: string }> {
  const proxy = await TcpProxy.start({ port })
  onTestFinished(() => proxy.stop())
  return { proxy, url: `postgres://postgres@127.0.0.1:${proxy.port}/postgres` }
}

const makers: readonly [string, (source: PostgresSource) => LockDriver][] = [
  ['leases', (source) => postgres(source, { schema })],
  ['advisory locks', (source) => postgresAdvisory(source, { schema })],
]

describe.each(makers)('closing (%s)', (_, make) => {
  test('while it is being opened leaves no connection', async () => {
    const { proxy, url } = await wayTo(server)
    const driver = make(url)
    const opening = driver.open().catch(() => {})
    await driver.close()
    await opening
    await eventually(() => proxy.connections === 0, 'the end of all connections')
  })

  test('ends though the server has fallen silent', async () => {
    const { proxy, url } = await wayTo(server)
    const driver = make(url)
    await driver.open()
    proxy.pause()
    await driver.close()
    proxy.resume()
    await eventually(() => proxy.connections === 0, 'the end of all connections')
  })

  test('ends though the server has fallen silent, by postgres.js', async () => {
    const { proxy, url } = await wayTo(server)
    const sql = postgresJs(url, { max: 2, onnotice: () => {} })
    onTestFinished(() => sql.end({ timeout: 0 }))
    const driver = make(sql)
    await driver.open()
    proxy.pause()
    await driver.close()
  })

  test('ends, and so does opening, though a connection beside the pool is never made', async () => {
    let clients = 0
    class Lonely extends Client {
      override connect(callback?: unknown): Promise<Client> & void {
        clients += 1
        // The pool calls back, and gets its connection.
        return (callback === undefined ? new Promise(() => {}) : super.connect(callback as () => void)) as never
      }
    }
    const pool = new Pool({ connectionString: server.url, max: 2, Client: Lonely })
    onTestFinished(() => pool.end())
    const driver = make(pool)
    await driver.open().catch((error: unknown) => expect(error).toMatchObject({ code: 'UNAVAILABLE' }))
    await driver.close()
    expect(clients).toBeGreaterThan(1)
  })
})

// CockroachDB itself does not run here: a PostgreSQL server says that it is one, by a function in front of its own.
test.each(makers)('connections to CockroachDB are refused when they are opened (%s)', async (_, make) => {
  await server.sql(`
    create schema if not exists cockroach;
    create or replace function cockroach.version() returns text language sql as
      $$ select 'CockroachDB CCL v24.1.0 (x86_64-pc-linux-gnu, built 2024/05/15, go1.22.2)' $$`)
  const driver = make(`${server.url}?options=${encodeURIComponent('-c search_path=cockroach,pg_catalog')}`)
  onTestFinished(() => driver.close())
  await expect(driver.open()).rejects.toMatchObject({
    code: 'UNSUPPORTED',
    message: expect.stringContaining('CockroachDB CCL v24.1.0') as string,
  })
  await expect(claim(driver, claimOf('a', { wait: false, ttlMs: 5000 }))).rejects.toMatchObject({ code: 'UNSUPPORTED' })
})

describe('a connection', () => {
  test('that cannot listen, as on a standby, is closed', async () => {
    await opened(postgres(server.url, { schema }))
    const standby = await server.startStandby()
    onTestFinished(() => standby.destroy())
    const { proxy, url } = await wayTo(standby)
    const driver = postgres(url, { schema })
    await driver.open()
    await driver.close()
    await eventually(() => proxy.connections === 0, 'the end of all connections')
  })

  test('that may only read is not used again: the next may lead to a server that writes', async () => {
    await server.sql('alter database postgres set default_transaction_read_only = on')
    const driver = await opened(postgres(server.url, { schema, listen: false }))
    await expect(claim(driver, claimOf('a'))).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'read-only' })
    await server.sql('alter database postgres reset default_transaction_read_only')
    expect(await claim(driver, claimOf('a'))).toMatchObject({ state: 'held' })
  })

  test('in the middle of a transaction that somebody left open is ended, and no lock is believed that is not committed', async () => {
    const pool = new Pool({ connectionString: server.url, max: 1 })
    onTestFinished(() => pool.end())
    const driver = await opened(postgres(pool, { schema, listen: false }))
    await leave(pool, 'begin')
    const sent = claim(driver, claimOf('b'))
    await expect(sent).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'configuration' })
    expect((await driver.list({ key: 'b' })).keys).toEqual([])
    expect(await claim(driver, claimOf('b'))).toMatchObject({ state: 'held' })
  })

  test('of our own, on which a transaction is open, makes a lock that may not be committed: the outcome is unknown', async () => {
    const client = new Client({ connectionString: server.url })
    await client.connect()
    onTestFinished(() => client.end())
    const driver = await opened(postgres(client, { schema, listen: false }))
    await client.query('begin')
    expect(await claim(driver, claimOf('c'))).toMatchObject({ state: 'unknown', error: { reason: 'configuration' } })
    await client.query('rollback')
    expect(await claim(driver, claimOf('c'))).toMatchObject({ state: 'held' })
  })

  test.each(['begin; select no_such_column', 'discard all'])(
    'on which somebody left "%s" is not used again',
    async (text) => {
      const pool = new Pool({ connectionString: server.url, max: 1 })
      onTestFinished(() => pool.end())
      const driver = await opened(postgres(pool, { schema, listen: false }))
      const wanted = claimOf('d')
      await claim(driver, wanted)
      await renew(driver, wanted)
      await leave(pool, ...text.split('; '))
      expect(await renew(driver, wanted)).toMatchObject({ state: 'held' })
      await release(driver, wanted)
    },
  )
})

/** Somebody else uses a connection of the pool, and gives it back as it is then. */
async function leave(pool: Pool, ...statements: readonly string[]): Promise<void> {
  const client = await pool.connect()
  for (const statement of statements) await client.query(statement).catch(() => {})
  client.release()
}

test.each([1, 2])(
  'an instance of postgres.js with %i connections that fall silent is not asked again: leases live on, nothing is thrown',
  async (max) => {
    const thrown: unknown[] = []
    const note = (error: unknown): void => void thrown.push(error)
    process.on('unhandledRejection', note)
    onTestFinished(() => void process.off('unhandledRejection', note))
    const { proxy, url } = await wayTo(server)
    const sql = postgresJs(url, { max, onnotice: () => {} })
    onTestFinished(() => sql.end({ timeout: 0 }))
    const locks = await createLocks({ driver: postgres(sql, { schema }) })
    onTestFinished(() => locks.close())
    const lease = await locks.acquire(`silent-${max}`, { ttl: 4000 })
    proxy.silence()
    await pause(8000)
    expect(lease.held).toBe(true)
    const other = await locks.acquire('another', { wait: 2000 })
    await Promise.all([lease.release(), other.release()])
    expect(thrown).toEqual([])
  },
)
