import { getEventListeners } from 'node:events'
import { Pool } from 'pg'
import postgresJs from 'postgres'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { cancelOnLoss, postgres } from '../../src/drivers/postgres/driver.ts'
import { createLocks, type Lease, type Locks } from '../../src/index.ts'
import { eventually } from '../support/eventually.ts'
import { PostgresServer, freshSchema } from '../support/postgres-server.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'

const server = await PostgresServer.start()
afterAll(() => server.destroy())

type Row = Readonly<Record<string, unknown>>
type Query = (text: string) => Promise<readonly Row[]>

/** A pool of one connection, run by either client. */
interface Pooled {
  /** Runs `body` on the connection, under `cancelOnLoss`. */
  guarded<Result>(lease: Lease, body: (query: Query) => Promise<Result>): Promise<Result>
  /** A statement without any lease. */
  query: Query
}

const clients: Record<string, (url?: string) => Pooled> = {
  pg(url = server.url) {
    const pool = new Pool({ connectionString: url, max: 1 })
    onTestFinished(() => pool.end())
    return {
      guarded: (lease, body) =>
        cancelOnLoss(lease, pool, (client) => body(async (text) => (await client.query<Row>(text)).rows)),
      query: async (text) => (await pool.query<Row>(text)).rows,
    }
  },
  postgres(url = server.url) {
    const sql = postgresJs(url, { max: 1, onnotice: () => {}, transform: postgresJs.camel })
    onTestFinished(() => sql.end())
    return {
      guarded: (lease, body) => cancelOnLoss(lease, sql, (reserved) => body((text) => reserved.unsafe(text))),
      query: (text) => sql.unsafe(text),
    }
  },
}

async function openLocks(): Promise<Locks> {
  const locks = await createLocks({ driver: postgres(server.url, { schema: freshSchema('cancel') }), allowForce: true })
  onTestFinished(() => locks.close())
  return locks
}

/** How many sessions of the server run a statement, or have last run one. */
async function sessions(text: string, state = '%'): Promise<number> {
  const sql =
    'select count(*)::integer as count from pg_stat_activity where pid <> pg_backend_pid() and query = $1 and state like $2'
  return (await server.sql(sql, [text, state]))[0]?.['count'] as number
}

/** Resolves when a statement with this text runs in the server. */
async function running(text: string): Promise<void> {
  await eventually(async () => (await sessions(text, 'active')) === 1, `The statement ${text}`)
}

const evict = (locks: Locks) => locks.evict('a', { reason: 'the test wants it' })
const processOf = async (query: Query): Promise<unknown> =>
  Object.values((await query('select pg_backend_pid()'))[0] ?? {})[0]

describe.each(Object.entries(clients))('with %s', (_name, open) => {
  test('a query is cancelled when its lease is evicted, and the connection stays usable', async () => {
    const [locks, pooled] = [await openLocks(), open()]
    const lease = await locks.acquire('a')
    const before = await processOf(pooled.query)
    const sleeping = pooled.guarded(lease, (query) => query('select pg_sleep(61)')).catch((error: unknown) => error)
    await running('select pg_sleep(61)')
    await evict(locks)
    expect(await sleeping).toMatchObject({ code: 'LOST', reason: 'evicted: the test wants it' })
    expect(await sessions('select pg_sleep(61)', 'active')).toBe(0)
    // The same session, and not one that replaced it.
    expect(await processOf(pooled.query)).toBe(before)
    for (let round = 0; round < 20; round += 1) await pooled.query('select pg_sleep(0.002)')
    // The connection that carried the cancellation is gone.
    const cancellation = 'select pg_cancel_backend($1)::text'
    await eventually(async () => (await sessions(cancellation)) === 0, 'The end of the other connection')
  })

  test('what a body does after the cancellation is cancelled too, and its transaction is undone', async () => {
    const [locks, pooled] = [await openLocks(), open()]
    await pooled.query('create table written (value integer)')
    onTestFinished(async () => void (await server.sql('drop table written')))
    const lease = await locks.acquire('a')
    const stubborn = pooled
      .guarded(lease, async (query) => {
        await query('select pg_sleep(62)').catch(() => {})
        await query('select pg_sleep(63)').catch(() => {})
        await query('begin')
        await query('insert into written values (1)')
        try {
          await query('select pg_sleep(64)')
          await query('commit')
        } finally {
          await query('rollback')
        }
      })
      .catch((error: unknown) => error)
    await running('select pg_sleep(62)')
    await evict(locks)
    expect(await stubborn).toMatchObject({ code: 'LOST' })
    expect(await pooled.query('select * from written')).toHaveLength(0)
  })

  test('a cancellation that is still on its way when the body ends hits no statement after it', async () => {
    const proxy = await TcpProxy.start({ port: server.port })
    onTestFinished(() => proxy.stop())
    const url = new URL(server.url)
    url.port = String(proxy.port)
    const [locks, pooled] = [await openLocks(), open(url.href)]
    const lease = await locks.acquire('a')
    const ending = pooled.guarded(lease, async (query) => {
      const sleeping = query('select pg_sleep(65)').catch(() => {})
      await running('select pg_sleep(65)')
      await evict(locks)
      await sleeping
      proxy.delayMs = 1000
      await eventually(() => proxy.delayedRequests > 0, 'The next cancellation')
      proxy.delayMs = 0
    })
    await expect(ending).rejects.toMatchObject({ code: 'LOST' })
    // For longer than the cancellation was held back.
    await pooled.query('select pg_sleep(1.5)')
  })

  test('a body that ends while its lease is held is left alone', async () => {
    const [locks, pooled] = [await openLocks(), open()]
    const lease = await locks.acquire('a')
    const listeners = getEventListeners(lease.signal, 'abort').length
    expect(await pooled.guarded(lease, (query) => query('select 7 as seven'))).toEqual([{ seven: 7 }])
    const failing = pooled.guarded(lease, (query) => query('select no_such_column'))
    await expect(failing).rejects.toMatchObject({ code: '42703' })
    expect(getEventListeners(lease.signal, 'abort')).toHaveLength(listeners)
    await evict(locks)
    await pooled.query('select pg_sleep(0.1)')
  })

  test('nothing runs under a lease that is lost already', async () => {
    const [locks, pooled] = [await openLocks(), open()]
    const lease = await locks.acquire('a')
    await evict(locks)
    await eventually(() => lease.signal.aborted, 'The loss')
    let runs = 0
    const late = pooled.guarded(lease, async () => (runs += 1))
    await expect(late).rejects.toMatchObject({ code: 'LOST' })
    expect(runs).toBe(0)
    await pooled.query('select 1')
  })

  test('a body that does not notice the loss is told of it at its end', async () => {
    const [locks, pooled] = [await openLocks(), open()]
    const lease = await locks.acquire('a')
    const late = pooled.guarded(lease, async () => {
      await evict(locks)
      await eventually(() => lease.signal.aborted, 'The loss')
      return 'done'
    })
    await expect(late).rejects.toMatchObject({ code: 'LOST' })
    await pooled.query('select 1')
  })
})

test('a connection whose session is unknown is refused', async () => {
  const locks = await openLocks()
  const lease = await locks.acquire('a')
  for (const source of [undefined, null, {}, server.url, { query: () => {}, connect: () => {} }] as never[]) {
    await expect(cancelOnLoss(lease, source, async () => 1)).rejects.toMatchObject({ code: 'INVALID' })
  }
})
