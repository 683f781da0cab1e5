import { Client, Pool } from 'pg'
import postgresJs from 'postgres'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { createLocks } from '../../src/index.ts'
import type { LockDriver, Notification } from '../../src/core/contract/driver.ts'
import {
  postgresAdvisory,
  type PostgresAdvisoryOptions,
  type PostgresSource,
} from '../../src/drivers/postgres-advisory/driver.ts'
import { advisoryKey } from '../../src/drivers/postgres-advisory/key.ts'
import { claim, claimOf, release, renew } from '../support/claims.ts'
import { eventually } from '../support/eventually.ts'
import { PgBouncer } from '../support/pgbouncer.ts'
import { PostgresServer, freshSchema } from '../support/postgres-server.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'

// Few locks fit into such a server's memory.
const server = await PostgresServer.start({ settings: { max_connections: 12, max_locks_per_transaction: 10 } })
afterAll(() => server.destroy())

const schema = freshSchema('advisory')
const ttlMs = 5000

async function open(options: PostgresAdvisoryOptions = {}, source: PostgresSource = server.url): Promise<LockDriver> {
  const driver = postgresAdvisory(source, { schema, ...options })
  onTestFinished(() => driver.close())
  await driver.open()
  return driver
}

function wish(key: string) {
  return claimOf(key, { ttlMs, wait: false })
}

/** The server's processes that hold advisory locks by name. */
async function holders(): Promise<number[]> {
  const rows = await server.sql(`select distinct pid from pg_locks where locktype = 'advisory' and objsubid = 1`)
  return rows.map((row) => row['pid'] as number)
}

/** Has a pooler open all the sessions it may. */
async function useAllSessions(bouncer: PgBouncer, sessions: number): Promise<void> {
  const pool = new Pool({ connectionString: bouncer.url, max: sessions })
  const clients = await Promise.all(Array.from({ length: sessions }, () => pool.connect()))
  for (const client of clients) await client.query('begin')
  for (const client of clients) {
    await client.query('rollback')
    client.release()
  }
  await pool.end()
}

describe('the pinned connection', () => {
  test('is terminated: every lease is lost at once, its holder is told, and others may have it', async () => {
    const [driver, other] = [await open(), await open()]
    const [one, two] = [wish('a'), wish('b')]
    const { fence } = (await claim(driver, one)) as { fence: number }
    await claim(driver, two)
    const received: [string, Notification][] = []
    driver.listen?.((_key, id, notification) => received.push([id, notification]))
    for (const pid of await holders()) await server.sql('select pg_terminate_backend($1)', [pid])
    await eventually(() => received.length === 2, 'the news')
    for (const [, notification] of received) expect(notification).toMatchObject({ state: 'absent', reason: 'evicted' })
    expect(new Set(received.map(([id]) => id))).toEqual(new Set([one.id, two.id]))
    const next = await eventually(async () => {
      const status = await claim(other, wish('a'))
      return status.state === 'held' && status
    }, 'the lock')
    expect(next.fence).toBeGreaterThan(fence)
    // The driver itself begins a new session.
    expect(await renew(driver, one)).toEqual({ state: 'absent', reason: 'unknown' })
    expect(await claim(driver, wish('c'))).toMatchObject({ state: 'held' })
  })

  test('is what a lease ends with: handing it off is refused, and it stays held', async () => {
    const locks = await createLocks({ driver: await open() })
    onTestFinished(() => locks.close())
    const lease = await locks.acquire('a', { ttl: ttlMs })
    await expect(lease.handOff()).rejects.toMatchObject({ code: 'UNSUPPORTED' })
    expect(lease.held).toBe(true)
  })

  test('is terminated: the signal of the lease fires long before its ttl', async () => {
    const driver = await open()
    const locks = await createLocks({ driver })
    onTestFinished(() => locks.close())
    const lease = await locks.acquire('a', { ttl: '30s' })
    for (const pid of await holders()) await server.sql('select pg_terminate_backend($1)', [pid])
    await eventually(() => lease.signal.aborted, 'the signal')
  })

  test('falls silent: the server gives up its locks when the ttl is over', async () => {
    const proxy = await TcpProxy.start({ port: server.port })
    onTestFinished(() => proxy.stop())
    const other = await open()
    const silent = await open(
      { ttlMs: 5000, sendTimeoutMs: 2000 },
      `postgres://postgres@127.0.0.1:${proxy.port}/postgres`,
    )
    const held = claimOf('a', { ttlMs: 5000, wait: false })
    const heldAt = performance.now()
    expect(await claim(silent, held)).toMatchObject({ state: 'held' })
    proxy.pause()
    expect(await claim(other, wish('a'))).toMatchObject({ state: 'absent', reason: 'refused' })
    if ((await server.version()) < 14) {
      // Nothing there ends a session for its silence: its lock stays until the connection ends.
      await eventually(() => performance.now() - heldAt > 6000, 'the ttl')
      expect(await claim(other, wish('a'))).toMatchObject({ state: 'absent', reason: 'refused' })
      proxy.refuse()
    }
    await eventually(async () => (await claim(other, wish('a'))).state === 'held', 'the lock')
    expect(performance.now() - heldAt).toBeGreaterThan(4900)
    // By then the connection may have ended, or be silent still: the renewal was not sent, or is not known to be done.
    const renewed = await renew(silent, held).catch((error: unknown) => ({ state: 'unknown', error }))
    expect(renewed).toMatchObject({ state: 'unknown', error: { code: 'UNAVAILABLE' } })
  })

  test('is made anew by a client package behind our back: that is noticed, and nothing is believed held', async () => {
    const sql = postgresJs(server.url, { max: 4, onnotice: () => {} })
    onTestFinished(() => sql.end({ timeout: 1 }))
    const driver = await open({}, sql)
    const held = wish('a')
    expect(await claim(driver, held)).toMatchObject({ state: 'held' })
    for (const pid of await holders()) await server.sql('select pg_terminate_backend($1)', [pid])
    await eventually(async () => (await holders()).length === 0, 'the end of the session')
    expect((await renew(driver, held)).state).not.toBe('held')
    expect((await renew(driver, held)).state).not.toBe('held')
  })
})

describe('the server', () => {
  test('crashes: every lock is gone, and fences go on growing', async () => {
    const driver = await open()
    const { fence } = (await claim(driver, wish('a'))) as { fence: number }
    await server.stop('immediate')
    await server.resume()
    const next = (await claim(await open(), wish('a'))) as { fence: number }
    expect(next.fence).toBeGreaterThan(fence)
  })

  test('has no room for so many locks: none of the batch is left behind, and what was held stays', async () => {
    const driver = await open()
    const kept = wish('kept')
    await claim(driver, kept)
    const many = Array.from({ length: 5000 }, (_, index) => wish(`many-${index}`))
    const statuses = await driver.send(many.map((wanted) => ({ op: 'claim' as const, claim: wanted })))
    expect(statuses[0]).toMatchObject({ state: 'unknown', error: { code: 'UNAVAILABLE', reason: 'busy' } })
    const [row] = await server.sql(
      `select count(*)::integer as locks from pg_locks where locktype = 'advisory' and objsubid = 1`,
    )
    expect(row).toEqual({ locks: 1 })
    expect(await renew(driver, kept)).toMatchObject({ state: 'held' })
    expect(await release(driver, kept)).toEqual({ state: 'absent', reason: 'released' })
    expect(await holders()).toEqual([])
  })

  test('refuses a batch with the release of a shared lock: nobody shares what the session has given back', async () => {
    const [driver, other] = [await open(), await open()]
    const sharing = () => claimOf('shared', { ttlMs, wait: false, mode: 'shared' })
    const first = sharing()
    await claim(driver, first)
    const many = Array.from({ length: 5000 }, (_, index) => wish(`many-${index}`))
    const statuses = await driver.send([
      { op: 'release', key: first.key, id: first.id },
      ...many.map((wanted) => ({ op: 'claim' as const, claim: wanted })),
    ])
    expect(statuses[0]).toMatchObject({ state: 'unknown' })
    expect(await claim(other, wish('shared'))).toMatchObject({ state: 'held' })
    expect(await claim(driver, sharing())).toEqual({ state: 'absent', reason: 'refused' })
    expect(await renew(driver, first)).toMatchObject({ state: 'absent' })
  })

  test('loses the schema under an open session: it is made anew, what is held stays, fences grow', async () => {
    const name = freshSchema('dropped')
    const [driver, other] = [await open({ schema: name }), await open({ schema: name })]
    const [kept, again] = [wish('kept'), wish('again')]
    const { fence } = (await claim(driver, kept)) as { fence: number }
    await claim(driver, again)
    await release(driver, again)
    for (const key of ['again', 'another']) {
      await server.sql(`drop schema ${name} cascade`)
      const next = await claim(driver, wish(key))
      expect(next).toMatchObject({ state: 'held' })
      expect((next as { fence: number }).fence).toBeGreaterThan(fence)
      expect(await renew(driver, kept)).toMatchObject({ state: 'held', fence })
      expect(await claim(other, wish('kept'))).toEqual({ state: 'absent', reason: 'refused' })
    }
  })

  test('has no room, and does not take them back either: the session ends, and they with it', async () => {
    let passes = Infinity
    class Refusing extends Client {
      override query(statement: never): never {
        const { text, handleError } = statement as { text: string; handleError?: (error: Error) => void }
        const isStep = handleError !== undefined && text.includes('pg_try_advisory_lock')
        if (!isStep || (passes -= 1) >= 0) return super.query(statement)
        handleError.call(statement, Object.assign(new Error('canceling statement'), { code: '57014' }))
        return undefined as never
      }
    }
    const pool = new Pool({ connectionString: server.url, max: 1, Client: Refusing })
    onTestFinished(() => pool.end())
    const driver = await open({}, pool)
    const kept = claimOf('kept', { ttlMs: 30_000, wait: false })
    await claim(driver, kept)
    const received: string[] = []
    driver.listen?.((_key, id) => received.push(id))
    const many = Array.from({ length: 5000 }, (_, index) => wish(`many-${index}`))
    passes = 1
    const statuses = await driver.send(many.map((wanted) => ({ op: 'claim' as const, claim: wanted })))
    expect(statuses[0]).toMatchObject({ state: 'unknown', error: { code: 'UNAVAILABLE' } })
    await eventually(async () => (await holders()).length === 0, 'the end of the session')
    expect(received).toEqual([kept.id])
    passes = Infinity
    expect(await claim(driver, wish('kept'))).toMatchObject({ state: 'held' })
  })

  test.each([
    { sessions: 4, roundRobin: false },
    { sessions: 1, roundRobin: false },
    { sessions: 2, roundRobin: true },
    { sessions: 3, roundRobin: true },
    { sessions: 4, roundRobin: true },
  ])(
    'is behind a pooler in transaction mode (%o): refused with a clear error, and no lock is stranded',
    async (pool) => {
      const bouncer = await PgBouncer.start(server.port, 'transaction', pool)
      onTestFinished(() => bouncer.stop())
      await useAllSessions(bouncer, pool.sessions)
      for (let turn = 0; turn < 5; turn += 1) {
        const driver = postgresAdvisory(bouncer.url, { schema })
        await expect(driver.open()).rejects.toMatchObject({
          code: 'UNAVAILABLE',
          reason: 'configuration',
          message: expect.stringContaining('transaction mode') as string,
        })
        await expect(claim(driver, wish('a'))).rejects.toMatchObject({ code: 'UNAVAILABLE' })
        await driver.close()
      }
      expect(await holders()).toEqual([])
    },
  )

  test('is only silent when a session begins: that is told, and not taken for a pooler', async () => {
    class Silent extends Client {
      override query(statement: never): never {
        const isFirst = (statement as { text?: string }).text === 'select pg_backend_pid() as process_id'
        return isFirst ? (new Promise(() => {}) as never) : super.query(statement)
      }
    }
    const pool = new Pool({ connectionString: server.url, max: 1, Client: Silent })
    onTestFinished(() => pool.end())
    const driver = postgresAdvisory(pool, { schema })
    onTestFinished(() => driver.close())
    await expect(driver.open()).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'no-answer' })
  })

  test('is behind a pooler in session mode: that works', async () => {
    const bouncer = await PgBouncer.start(server.port, 'session')
    onTestFinished(() => bouncer.stop())
    const driver = await open({}, bouncer.url)
    expect(await claim(driver, wish('a'))).toMatchObject({ state: 'held' })
  })
})

test('a driver that could not be opened may be closed twice at once', async () => {
  const driver = postgresAdvisory('postgres://127.0.0.1:1/nowhere')
  await expect(driver.open()).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  await Promise.all([driver.close(), driver.close()])
})

describe('an id', () => {
  test('means a claim only together with its key: asked of another key it is not known, and nothing happens', async () => {
    const [driver, other] = [await open(), await open()]
    const held = wish('a')
    const { fence } = (await claim(driver, held)) as { fence: number }
    const astray = { ...held, key: 'b' }
    const unknown = { state: 'absent', reason: 'unknown' }
    expect(await renew(driver, astray)).toEqual(unknown)
    expect(await release(driver, astray)).toEqual(unknown)
    expect(await driver.send([{ op: 'withdraw', key: 'b', id: held.id }])).toEqual([unknown])
    expect(await driver.send([{ op: 'evict', key: 'a', fence, reason: 'because' }])).toMatchObject([
      { state: 'unknown', error: { code: 'UNSUPPORTED' } },
    ])
    expect(await claim(other, wish('a'))).toMatchObject({ state: 'absent', reason: 'refused' })
    // Claimed there, it is another claim: both are held, and given back one by one.
    expect(await claim(driver, astray)).toMatchObject({ state: 'held' })
    expect(await claim(other, wish('b'))).toMatchObject({ state: 'absent', reason: 'refused' })
    expect(await release(driver, astray)).toEqual({ state: 'absent', reason: 'released' })
    expect(await claim(other, wish('b'))).toMatchObject({ state: 'held' })
    expect(await renew(driver, held)).toMatchObject({ state: 'held', fence })
    expect(await release(driver, held)).toEqual({ state: 'absent', reason: 'released' })
  })
})

describe('names', () => {
  test('with one 64-bit key are told apart: the second is an error, not a grant', async () => {
    const driver = await open()
    await server.sql(`insert into ${schema}.advisory_names (hash, key) values ($1, 'planted')`, [
      advisoryKey('victim', schema),
    ])
    const [collided, granted] = await driver.send(
      ['victim', 'other'].map((key) => ({ op: 'claim' as const, claim: wish(key) })),
    )
    expect(collided).toMatchObject({ state: 'unknown', error: { code: 'INVALID' } })
    expect(granted).toMatchObject({ state: 'held' })
    expect((await holders()).length).toBe(1)
    await server.sql(`delete from ${schema}.advisory_names where key = 'planted'`)
  })

  test('are listed with their holders, also those of other processes', async () => {
    const [driver, other] = [await open(), await open()]
    await claim(driver, { ...wish('a'), runner: { ...wish('a').runner, id: 'runner-one' } })
    await claim(other, { ...wish('b'), mode: 'shared', runner: { ...wish('b').runner, id: 'runner-two' } })
    const { keys } = await driver.list({})
    expect(keys.map(({ key, claims }) => [key, claims[0]?.runner.id, claims[0]?.mode])).toEqual([
      ['a', 'runner-one', 'exclusive'],
      ['b', 'runner-two', 'shared'],
    ])
  })

  test('are listed after a crash of the server too, which forgets them', async () => {
    const driver = await open()
    await claim(driver, wish('a'))
    await server.stop('immediate')
    await server.resume()
    await eventually(
      async () => (await claim(driver, { ...wish('a'), ttlMs: 30_000 }).catch(() => undefined))?.state === 'held',
      'the lock',
    )
    expect((await driver.list({ key: 'a' })).keys).toMatchObject([{ key: 'a', claims: [{ state: 'held' }] }])
  })

  test('held in one process exclude each other there too', async () => {
    const pool = new Pool({ connectionString: server.url, max: 1 })
    onTestFinished(() => pool.end())
    const driver = await open({}, pool)
    const first = wish('a')
    expect(await claim(driver, first)).toMatchObject({ state: 'held' })
    expect(await claim(driver, wish('a'))).toEqual({ state: 'absent', reason: 'refused' })
    expect(await claim(driver, { ...wish('a'), mode: 'shared' })).toEqual({ state: 'absent', reason: 'refused' })
    await release(driver, first)
    const shared = [wish('a'), wish('a')].map((each) => ({ ...each, mode: 'shared' as const }))
    for (const each of shared) expect(await claim(driver, each)).toMatchObject({ state: 'held' })
    const other = await open()
    await release(driver, shared[0] ?? first)
    expect(await claim(other, wish('a'))).toEqual({ state: 'absent', reason: 'refused' })
    await release(driver, shared[1] ?? first)
    expect(await claim(other, wish('a'))).toMatchObject({ state: 'held' })
  })
})
