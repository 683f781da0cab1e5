import { Client } from 'pg'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Locks } from '../../src/index.ts'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import {
  postgres,
  postgresSchema,
  type PostgresOptions,
  type PostgresSource,
} from '../../src/drivers/postgres/driver.ts'
import { claim, claimOf, release, renew } from '../support/claims.ts'
import { Child } from '../support/child.ts'
import { eventually } from '../support/eventually.ts'
import { PgBouncer } from '../support/pgbouncer.ts'
import { PostgresServer, freshSchema } from '../support/postgres-server.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'
import { locksOn, opened } from '../support/opened.ts'

const server = await PostgresServer.start({ settings: { max_connections: 60, max_wal_senders: 4 } })
afterAll(() => server.destroy())

async function open(schema: string, options: PostgresOptions = {}, source: PostgresSource = server.url) {
  return opened(postgres(source, { schema, ...options }))
}

async function proxied(): Promise<{ proxy: TcpProxy; url: string }> {
  const proxy = await TcpProxy.start({ port: server.port })
  onTestFinished(() => proxy.stop())
  return { proxy, url: `postgres://postgres@127.0.0.1:${proxy.port}/postgres` }
}

describe('the server', () => {
  test('restarts: what was held is held, by the same fence, through the same driver', async () => {
    const driver = await open(freshSchema('faults'))
    const held = claimOf('a')
    const before = await claim(driver, held)
    const waiting = claimOf('a')
    await claim(driver, waiting)
    await server.stop('fast')
    await expect(renew(driver, held)).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'network' })
    await server.resume()
    expect(await renew(driver, held)).toMatchObject({ state: 'held', fence: (before as { fence: number }).fence })
    await release(driver, held)
    expect(await renew(driver, waiting)).toMatchObject({ state: 'held' })
  })

  test('crashes: all that was answered is as it was', async () => {
    const durable = await PostgresServer.start({ durable: true })
    onTestFinished(() => durable.destroy())
    const driver = await open(freshSchema('faults'), { listen: false }, durable.url)
    const held = claimOf('a')
    const { fence } = (await claim(driver, held)) as { fence: number }
    const gone = claimOf('b')
    await claim(driver, gone)
    await release(driver, gone)
    await durable.stop('immediate')
    await durable.resume()
    expect(await renew(driver, held)).toMatchObject({ state: 'held', fence })
    expect(await renew(driver, gone)).toEqual({ state: 'absent', reason: 'unknown' })
  })

  test('restarts with unlogged tables: what was held is held', async () => {
    const driver = await open(freshSchema('faults'), { unlogged: true, listen: false })
    const held = claimOf('a')
    const { fence } = (await claim(driver, held)) as { fence: number }
    await server.stop('fast')
    await server.resume()
    expect(await renew(driver, held)).toMatchObject({ state: 'held', fence })
  })

  test('crashes with unlogged tables: they come back empty, and fences go on growing', async () => {
    const driver = await open(freshSchema('faults'), { unlogged: true })
    const held = claimOf('a')
    const { fence } = (await claim(driver, held)) as { fence: number }
    await server.stop('immediate')
    await server.resume()
    expect(await renew(driver, held)).toEqual({ state: 'absent', reason: 'unknown' })
    const next = await claim(driver, claimOf('a'))
    expect(next).toMatchObject({ state: 'held' })
    expect((next as { fence: number }).fence).toBeGreaterThan(fence)
  })

  test('loses a schema that somebody dropped: it is made anew', async () => {
    const schema = freshSchema('faults')
    const driver = await open(schema)
    await claim(driver, claimOf('a'))
    await server.sql(`drop schema ${schema} cascade`)
    expect(await claim(driver, claimOf('a'))).toMatchObject({ state: 'held' })
  })

  test('takes no more connections: busy, and later it works', async () => {
    const schema = freshSchema('faults')
    const strangers: Client[] = []
    const crowd = async (): Promise<void> => {
      for (;;) {
        const stranger = new Client({ connectionString: server.url })
        stranger.on('error', () => {})
        await stranger.connect()
        strangers.push(stranger)
      }
    }
    let driver = postgres(server.url, { schema, sendTimeoutMs: 500 })
    onTestFinished(() => driver.close())
    try {
      const refusal = await eventually(async () => {
        await expect(crowd()).rejects.toMatchObject({ code: '53300' })
        const refused = await driver.open().catch((error: unknown) => ({ error }))
        if (refused !== undefined) return refused
        // Somebody who was leaving has made room meanwhile.
        await driver.close()
        driver = postgres(server.url, { schema, sendTimeoutMs: 500 })
        return undefined
      }, 'a refusal')
      expect(refusal.error).toMatchObject({ code: 'UNAVAILABLE', reason: 'busy' })
    } finally {
      await Promise.all(strangers.map((stranger) => stranger.end()))
    }
    await eventually(
      () =>
        claim(driver, claimOf('a'))
          .then(({ state }) => state === 'held')
          .catch(() => false),
      'a grant',
    )
  })

  test('is a standby: read-only is what is told', async () => {
    const schema = freshSchema('faults')
    await open(schema)
    const standby = await server.startStandby()
    onTestFinished(() => standby.destroy())
    const driver = postgres(standby.url, { schema })
    onTestFinished(() => driver.close())
    const sent = driver.open().then(() => claim(driver, claimOf('a')))
    await expect(sent).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'read-only' })
    // It may be promoted without the last of its primary's claims.
    await expect(driver.dataAgeMs?.()).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'read-only' })
  })

  test('does not know the user: auth is what is told', async () => {
    const driver = postgres(server.url.replace('postgres@', 'nobody@'))
    onTestFinished(() => driver.close())
    await expect(driver.open()).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'auth' })
  })

  test('is not there: network is what is told', async () => {
    const driver = postgres('postgres://postgres@127.0.0.1:1/postgres')
    onTestFinished(() => driver.close())
    await expect(driver.open()).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'network' })
  })
})

/** Whether a renewal goes through. */
const renews = (lease: { renew(): Promise<void> }): Promise<boolean> =>
  lease.renew().then(
    () => true,
    () => false,
  )

describe('a session', () => {
  test('that is terminated under its holder costs nothing: the lease lives on', async () => {
    const schema = freshSchema('faults')
    const locks = await locksOn(await open(schema))
    const lease = await locks.acquire('a', { ttl: '30s' })
    await terminateAll()
    // The first to use a dead session may be told so; the next try has another.
    await eventually(() => renews(lease), 'a renewal')
    expect(lease.held).toBe(true)
    await lease.release()
  })

  test('that listened is terminated: the waiter is called all the same', async () => {
    const schema = freshSchema('faults')
    const driver = await open(schema)
    const holder = await locksOn(driver)
    const waiter = await locksOn(await open(schema))
    expect(await handOverMs(driver, holder, waiter, () => terminateAll("query like 'listen%'"))).toBeLessThan(20_000)
  })

  test('is terminated between commit and answer, a hundred times: nothing is granted twice or left behind', async () => {
    const schema = freshSchema('faults')
    const { proxy, url } = await proxied()
    const driver = await open(schema, { poolSize: 1, listen: false }, url)
    const direct = await open(schema, { listen: false })
    let fenceMax = 0
    for (let turn = 0; turn < 100; turn += 1) {
      const wanted = claimOf('a')
      await driver.list({ key: 'a' })
      const cut = proxy.cutAfterRequest()
      const status = await claim(driver, wanted)
      await cut
      expect(status).toMatchObject({ state: 'unknown', error: { code: 'UNAVAILABLE', reason: 'network' } })
      // It was carried out, and asking again finds it.
      const again = (await claim(direct, wanted)) as { state: string; fence: number }
      expect(again.state).toBe('held')
      expect(again.fence).toBeGreaterThan(fenceMax)
      fenceMax = again.fence
      expect(await release(direct, wanted)).toEqual({ state: 'absent', reason: 'released' })
    }
    expect(await direct.list({})).toMatchObject({ keys: [] })
  })

  test('is cut after commit and before the answer: the client leaves no orphan', async () => {
    const schema = freshSchema('faults')
    const { proxy, url } = await proxied()
    const driver = await open(schema, { poolSize: 1, listen: false }, url)
    const locks = await locksOn(driver)
    await driver.list({})
    const cut = proxy.cutAfterRequest()
    const attempt = locks.tryAcquire('a', { ttl: '60s' }).catch(() => null)
    await cut
    const lease = await attempt
    await lease?.release()
    const direct = await open(schema, { listen: false })
    await eventually(async () => (await direct.list({})).keys.length === 0, 'an empty store')
  })

  test('that does not answer is given up in time, and the outcome is unknown', async () => {
    const schema = freshSchema('faults')
    const { proxy, url } = await proxied()
    const driver = await open(schema, { poolSize: 1, listen: false, sendTimeoutMs: 1500 }, url)
    await driver.list({})
    proxy.dropReplies = true
    const status = await claim(driver, claimOf('a', { ttlMs: 600_000 }))
    expect(status).toMatchObject({ state: 'unknown', error: { code: 'UNAVAILABLE', reason: 'no-answer' } })
    proxy.dropReplies = false
    await eventually(() => driver.list({}).catch(() => undefined), 'a fresh connection')
  })
})

describe('sessions that fall silent', () => {
  test('are given up in time to renew by another: the lease lives on', async () => {
    const schema = freshSchema('faults')
    const { proxy, url } = await proxied()
    const driver = await open(schema, { listen: false, sendTimeoutMs: 20_000 }, url)
    const locks = await locksOn(driver)
    const direct = await open(schema, { listen: false })
    const lease = await locks.acquire('a', { ttl: '18s' })
    await Promise.all([1, 2, 3, 4].map(() => driver.list({})))
    expect(proxy.connections).toBe(4)
    proxy.silence()
    const renewed = async (): Promise<boolean> => {
      const [listed] = (await direct.list({})).keys
      return (listed?.claims[0]?.renewalCount ?? 0) > 0
    }
    await eventually(renewed, 'a renewal')
    expect(lease.held).toBe(true)
  })
})

describe('a database that is far away', () => {
  test('grants what is asked for together with renewals of leases too short for that distance', async () => {
    const schema = freshSchema('faults')
    const { proxy, url } = await proxied()
    const driver = await open(schema, { listen: false }, url)
    const locks = await locksOn(driver)
    await locks.list()
    proxy.delayMs = 60
    const short = claimOf('short', { ttlMs: 100 })
    const wanted = Array.from({ length: 20 }, (_, place) => claimOf(`driver-${place}`))
    const statuses = await driver.send([
      ...wanted.map((each) => ({ op: 'claim' as const, claim: each })),
      { op: 'renew', key: short.key, id: short.id, ttlMs: short.ttlMs },
    ])
    expect(statuses.slice(0, 20).map(({ state }) => state)).toEqual(wanted.map(() => 'held'))
    // Renewed in the middle of the turns in which the others are asked for.
    const hurried = await locks.acquire('hurried', { ttl: 150 }).catch(() => undefined)
    const leases = await Promise.all(
      Array.from({ length: 140 }, async (_, place) => {
        void hurried?.renew().catch(() => {})
        return locks.acquire(`client-${place}`, { ttl: '30s', wait: '20s' })
      }),
    )
    expect(leases.filter((lease) => lease.held)).toHaveLength(140)
  })
})

describe('a statement', () => {
  test('that takes longer than statement_timeout is busy, and leaves nothing', async () => {
    const schema = freshSchema('faults')
    await claim(await open(schema), claimOf('a', { ttlMs: 1 }))
    const url = `${server.url}?options=${encodeURIComponent('-c statement_timeout=1000')}`
    const driver = await open(schema, { listen: false, sendTimeoutMs: 6000 }, url)
    const stranger = await blocking(schema)
    const sent = claim(driver, claimOf('a'))
    await expect(sent).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'busy' })
    await stranger.end()
    expect((await driver.list({ key: 'a' })).keys.flatMap(({ claims }) => claims).length).toBeLessThan(2)
  })

  test('that waits for a stranger for too long is unknown, in bounded time', async () => {
    const schema = freshSchema('faults')
    const driver = await open(schema, { listen: false, sendTimeoutMs: 1500 })
    await claim(driver, claimOf('a', { ttlMs: 1 }))
    const stranger = await blocking(schema)
    expect(await claim(driver, claimOf('a'))).toMatchObject({ state: 'unknown', error: { reason: 'no-answer' } })
    await stranger.end()
  })

  test('that fails to serialize is sent again: every claim of a crowd is answered', async () => {
    const schema = freshSchema('faults')
    await open(schema)
    const url = `${server.url}?options=${encodeURIComponent('-c default_transaction_isolation=serializable')}`
    const drivers = await Promise.all([1, 2, 3, 4].map(() => open(schema, { listen: false }, url)))
    const claims = drivers.flatMap((driver) => Array.from({ length: 10 }, () => claim(driver, claimOf('a'))))
    const statuses = await Promise.all(claims)
    expect(statuses.filter(({ state }) => state === 'held')).toHaveLength(1)
    expect(statuses.filter(({ state }) => state === 'waiting')).toHaveLength(39)
  })

  test('that sees only what was there when it began is sent again: nobody waits for a lock that has been let go', async () => {
    const schema = freshSchema('faults')
    const direct = await open(schema, { listen: false })
    const shared = claimOf('a', { mode: 'shared' })
    await claim(direct, shared)
    await renew(direct, claimOf('a'))
    const url = `${server.url}?options=${encodeURIComponent('-c default_transaction_isolation=repeatable\\ read')}`
    const [one, other] = [await open(schema, { listen: false }, url), await open(schema, { listen: false }, url)]
    const stranger = await blocking(schema)
    const wanted = claimOf('a')
    const waiting = claim(one, wanted)
    await blocked(1)
    const leaving = release(other, shared)
    await blocked(2)
    await stranger.end()
    expect((await Promise.all([waiting, leaving])).map(({ state }) => state)).toEqual(['waiting', 'absent'])
    expect((await direct.list({ key: 'a' })).keys).toMatchObject([{ claims: [{ id: wanted.id, state: 'held' }] }])
  })

  test('never waits for another in a cycle: batches that want each other’s keys all end', async () => {
    const schema = freshSchema('faults')
    const [one, other] = [await open(schema), await open(schema)]
    const rounds = async (driver: LockDriver, first: string, second: string): Promise<void> => {
      for (let round = 0; round < 60; round += 1) {
        const claims = [claimOf(first, { ttlMs: 60_000 }), claimOf(second, { ttlMs: 60_000 })]
        await driver.send(claims.map((wanted) => ({ op: 'claim' as const, claim: wanted })))
        await driver.send(claims.toReversed().map(({ key, id }) => ({ op: 'release' as const, key, id })))
      }
    }
    await Promise.all([rounds(one, 'a', 'b'), rounds(other, 'b', 'a'), rounds(one, 'c', 'a'), rounds(other, 'a', 'c')])
    const [row] = await server.sql('select deadlocks::integer from pg_stat_database where datname = current_database()')
    expect(row).toEqual({ deadlocks: 0 })
  })
})

describe('opening', () => {
  test('by twenty processes at once makes one schema that all can use', async () => {
    const schema = freshSchema('faults')
    const at = Date.now() + 3000
    const url = `${server.url}?schema=${schema}&poolSize=1`
    const children = Array.from({ length: 20 }, () => new Child('postgres-open', [url, String(at)]))
    onTestFinished(async () => void (await Promise.all(children.map((child) => child.kill()))))
    const lines = await Promise.all(children.map((child) => child.line(/^fence/)))
    expect(new Set(lines).size).toBe(20)
    expect(await Promise.all(children.map((child) => child.ended()))).toEqual(children.map(() => 0))
  })

  test('needs no rights to make anything where the DDL has been run before', async () => {
    const schema = freshSchema('faults')
    const user = `user_${schema}`
    await server.sql(postgresSchema({ schema }))
    await server.sql(`
      create role ${user} login;
      grant usage on schema ${schema} to ${user};
      grant select, insert, update, delete on all tables in schema ${schema} to ${user};
      grant usage on all sequences in schema ${schema} to ${user}`)
    onTestFinished(async () => void (await server.sql(`drop owned by ${user}; drop role ${user}`)))
    const driver = await open(schema, {}, server.url.replace('postgres@', `${user}@`))
    expect(await claim(driver, claimOf('a'))).toMatchObject({ state: 'held' })
    expect(await claim(driver, claimOf('a'))).toMatchObject({ state: 'waiting' })
  })

  test.each([
    ['a newer Leasehold', 3, /Update Leasehold/],
    ['a Leasehold before the first release', 1, /drop it/],
  ])('refuses tables of %s', async (_, format, message) => {
    const schema = freshSchema('faults')
    await server.sql(postgresSchema({ schema }))
    await server.sql(`update ${schema}.format set tables = ${format}`)
    await expect(open(schema)).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      reason: 'foreign',
      message: expect.stringMatching(message) as string,
    })
  })
})

describe('a transaction pooler', () => {
  test('is noticed: waiters poll, and nothing is lost', async () => {
    const schema = freshSchema('faults')
    const bouncer = await PgBouncer.start(server.port, 'transaction')
    onTestFinished(() => bouncer.stop())
    const [first, second] = await Promise.all([1, 2].map(async () => locksOn(await open(schema, {}, bouncer.url))))
    let holding = 0
    let turns = 0
    const take = async (locks: Locks | undefined): Promise<void> => {
      for (let turn = 0; turn < 10; turn += 1) {
        await locks?.run('a', { ttl: '30s' }, async () => {
          holding += 1
          expect(holding).toBe(1)
          await Promise.resolve()
          holding -= 1
          turns += 1
        })
      }
    }
    await Promise.all([take(first), take(second)])
    expect(turns).toBe(20)
  })

  test('hands a lock over in well under a second', async () => {
    const schema = freshSchema('faults')
    const bouncer = await PgBouncer.start(server.port, 'transaction')
    onTestFinished(() => bouncer.stop())
    const driver = await open(schema, {}, bouncer.url)
    const waiter = await locksOn(await open(schema, {}, bouncer.url))
    expect(await handOverMs(driver, await locksOn(driver), waiter)).toBeLessThan(20_000)
  })
})

/** How long after its release a lock of a minute is handed over to another client, whose only other way is to ask at the end of that minute. */
async function handOverMs(
  driver: LockDriver,
  holder: Locks,
  waiter: Locks,
  beforehand: () => Promise<void> = async () => {},
): Promise<number> {
  const lease = await holder.acquire('a', { ttl: '60s' })
  const waiting = waiter.acquire('a', { ttl: '60s' })
  await eventually(async () => (await driver.list({})).keys[0]?.claims.length === 2, 'the waiter')
  await beforehand()
  await lease.release()
  const releasedAt = performance.now()
  const next = await waiting
  const handedOverAt = performance.now()
  await next.release()
  return handedOverAt - releasedAt
}

describe('time and room', () => {
  test('a thousand waiters share a pool of two, each is served in its turn', async () => {
    const locks = await locksOn(await open(freshSchema('faults'), { poolSize: 2 }))
    const order: number[] = []
    const first = await locks.acquire('a', { ttl: '110s' })
    const waiting = Array.from({ length: 1000 }, async (_, index) => {
      const lease = await locks.acquire('a', { ttl: '110s', wait: '100s' })
      order.push(index)
      await lease.release()
    })
    await first.release()
    await Promise.all(waiting)
    expect(order).toEqual(order.map((_, index) => index))
  })

  test('a clock set back does not stretch a lease beyond its ttl', async () => {
    const schema = freshSchema('faults')
    const driver = await open(schema)
    await movableClock(schema)
    await claim(driver, claimOf('a', { ttlMs: 10_000 }))
    const waiting = claimOf('a', { ttlMs: 60_000 })
    await claim(driver, waiting)
    await server.sql(`update ${schema}.hands set time = time - interval '1 hour'`)
    expect(await renew(driver, waiting)).toMatchObject({ state: 'waiting', againMs: 10_000 })
    await server.sql(`update ${schema}.hands set time = time + interval '10 seconds'`)
    expect(await renew(driver, waiting)).toMatchObject({ state: 'held', after: { how: 'expired' } })
  })

  test('names used once take no room an hour later, and their fences still grow', async () => {
    const schema = freshSchema('faults')
    const driver = await open(schema)
    await movableClock(schema)
    const names = Array.from({ length: 300 }, (_, index) => claimOf(`once-${index}`))
    const statuses = await driver.send(names.map((wanted) => ({ op: 'claim' as const, claim: wanted })))
    const last = Math.max(...statuses.map((status) => (status.state === 'held' ? status.fence : 0)))
    // One is crowded, one is held on; the others are given back.
    await claim(driver, claimOf('once-0'))
    const kept = claimOf('kept', { ttlMs: 3 * 3_600_000 })
    await claim(driver, kept)
    await driver.send(names.slice(1).map(({ key, id }) => ({ op: 'release' as const, key, id })))
    await server.sql(`select ${schema}.tidy(1000)`)
    expect(await server.sql(`select count(*)::integer as keys from ${schema}.keys`)).toEqual([{ keys: 301 }])
    await server.sql(`update ${schema}.hands set time = time + interval '2 hours'`)
    await server.sql(`select ${schema}.tidy(1000)`)
    expect(await server.sql(`select key from ${schema}.keys`)).toEqual([{ key: 'kept' }])
    expect(await server.sql(`select count(*)::integer as claims from ${schema}.claims`)).toEqual([{ claims: 0 }])
    expect(((await claim(driver, claimOf('once-7'))) as { fence: number }).fence).toBeGreaterThan(last)
    expect(await renew(driver, kept)).toMatchObject({ state: 'held' })
  })
})

/** The test moves this schema's clock from now on. */
async function movableClock(schema: string): Promise<void> {
  await server.sql(`
    create table ${schema}.hands as select date_trunc('milliseconds', now()) as time;
    create or replace function ${schema}.clock() returns timestamptz language sql volatile as
      'select time from ${schema}.hands'`)
}

/** Waits until so many sessions wait for a row. */
async function blocked(sessions: number): Promise<void> {
  const sql = `select count(*)::integer as sessions from pg_stat_activity where wait_event_type = 'Lock'`
  await eventually(async () => (await server.sql(sql))[0]?.['sessions'] === sessions, 'sessions that wait')
}

/** Ends sessions of drivers, and waits until they are gone. */
async function terminateAll(which = 'true'): Promise<void> {
  const [row] = await server.sql(`
    select count(pg_terminate_backend(pid))::integer as ended from pg_stat_activity
     where backend_type = 'client backend' and pid <> pg_backend_pid() and ${which}`)
  expect(row?.['ended']).toBeGreaterThan(0)
}

/** Somebody who keeps the rows of all keys locked. */
async function blocking(schema: string): Promise<Client> {
  const stranger = new Client({ connectionString: server.url })
  await stranger.connect()
  await stranger.query('begin')
  await stranger.query(`select from ${schema}.keys for update`)
  return stranger
}
