import { Client } from 'pg'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import type { Claim, HeldStatus } from '../../src/core/contract/driver.ts'
import { postgres, postgresSchema } from '../../src/drivers/postgres/driver.ts'
import { postgresAdvisory } from '../../src/drivers/postgres-advisory/driver.ts'
import { ask, claim, claimOf, release, renew } from '../support/claims.ts'
import { eventually } from '../support/eventually.ts'
import { opened } from '../support/opened.ts'
import { PostgresServer, freshSchema } from '../support/postgres-server.ts'

const server = await PostgresServer.start()
afterAll(() => server.destroy())

/** Makes a schema what an earlier revision left: types and tables with fewer columns, functions of them, other indexes, another table. */
async function makeEarlier(schema: string): Promise<void> {
  await server.sql(`
    drop type ${schema}.request cascade;
    create type ${schema}.request as (
      op text, key text, id text, ttl_ms bigint, fence bigint, reason text, plain boolean, tries boolean, max_hold_ms bigint,
      runner text, claim json);
    drop type ${schema}.draft cascade;
    create type ${schema}.step as (key text, now_ms bigint, last_fence bigint, status jsonb);
    create function ${schema}.carry_out(request ${schema}.request, sender text) returns json language sql as 'select null::json';
    create function ${schema}.promote(step ${schema}.step) returns ${schema}.step language sql as 'select step';
    drop index ${schema}.claims_held, ${schema}.claims_waiting;
    create unique index claims_held on ${schema}.claims (key, fence) where held;
    create unique index claims_waiting on ${schema}.claims (key, band, arrival) where not held;
    drop index ${schema}.claims_waiting_shape, ${schema}.claims_waiting_whole, ${schema}.claims_waiting_due;
    create index claims_waiting_kind on ${schema}.claims
      ((key || '') collate "C", ${schema}.kind_of(exclusive, range_start, range_end), coalesce(range_start, share_limit))
      where not held and (range_start is not null or not exclusive);
    alter table ${schema}.claims drop column due_at;
    alter table ${schema}.keys drop column over_first, drop column waiters_seen_at;
    drop table ${schema}.kept_since;
    create table ${schema}.since (one boolean primary key default true check (one), at timestamptz not null default now());
    update ${schema}.format set functions = 3`)
}

test('a schema of an earlier revision is brought up to date when it is opened, and keeps its locks', async () => {
  const schema = freshSchema('upgrade')
  const before = await opened(postgres(server.url, { schema, listen: false }))
  const [held, waiting, sharing] = [claimOf('a'), claimOf('a'), claimOf('b', { mode: 'shared' })]
  const { fence } = (await claim(before, held)) as { fence: number }
  await claim(before, waiting)
  await claim(before, sharing)
  await makeEarlier(schema)
  const after = await opened(postgres(server.url, { schema, listen: false }))
  // A column that the earlier type did not have.
  const detached = await ask(after, { op: 'renew', key: 'a', id: held.id, ttlMs: 60_000, detached: true })
  expect(detached).toMatchObject({ state: 'held', fence })
  expect((await after.list({ key: 'a' })).keys[0]?.claims[0]).toMatchObject({ id: held.id, detached: true })
  // Indexes that are no longer unique.
  const other = claimOf('b', { mode: 'shared' })
  await claim(after, other)
  const lift = (id: string) => ({ op: 'renew' as const, key: 'b', id, ttlMs: 60_000, fenceFloor: fence + 10 ** 9 })
  const lifted = await after.send([lift(sharing.id), lift(other.id)])
  expect(lifted.map(({ state }) => state)).toEqual(['held', 'held'])
  // A driver that was open all the while goes on.
  expect(await release(before, held)).toEqual({ state: 'absent', reason: 'released' })
  expect(await renew(before, waiting)).toMatchObject({ state: 'held' })
  expect(await after.dataAgeMs?.()).toBeLessThan(60_000)
})

test('waiters on ranges that an earlier revision has stored are granted and dropped as if they were new', async () => {
  const schema = freshSchema('upgrade')
  const before = await opened(postgres(server.url, { schema, listen: false }))
  const on = (start: number, ttlMs = 60_000): Claim => claimOf('a', { range: { start, end: start + 10 }, ttlMs })
  const [first, second, third] = [on(0), on(10), on(20)]
  const dead = Array.from({ length: 5 }, () => on(0, 50))
  const [forFirst, forSecond, forThird] = [on(0), on(10), on(20)]
  await before.send(
    [first, second, third, ...dead, forFirst, forSecond, forThird].map((each) => ({
      op: 'claim' as const,
      claim: each,
    })),
  )
  await makeEarlier(schema)
  const after = await opened(postgres(server.url, { schema, listen: false }))
  const statesOf = async (): Promise<Map<string, string>> =>
    new Map((await after.list({ key: 'a' })).keys[0]?.claims.map(({ id, state }) => [id, state]))
  await eventually(async () => {
    expect(await renew(after, forThird)).toMatchObject({ state: 'waiting' })
    return (await statesOf()).size === 6
  }, 'the end of the dead waiters')
  await release(after, first)
  await release(before, second)
  const states = await statesOf()
  expect([third, forFirst, forSecond, forThird].map(({ id }) => states.get(id))).toEqual([
    'held',
    'held',
    'held',
    'waiting',
  ])
})

test('many who open a schema of an earlier revision at once, and one who is at work meanwhile, all get what they ask for', async () => {
  const schema = freshSchema('upgrade')
  const worker = await opened(postgres(server.url, { schema, listen: false }))
  const ended = new AbortController()
  const work = (async () => {
    while (!ended.signal.aborted) {
      const claims = ['a', 'b', 'c'].map((key) => claimOf(key, { mode: 'shared' }))
      const statuses = await worker.send(claims.map((wanted) => ({ op: 'claim' as const, claim: wanted })))
      expect(statuses.map(({ state }) => state)).toEqual(['held', 'held', 'held'])
      await worker.send(claims.map(({ key, id }) => ({ op: 'release' as const, key, id })))
    }
  })()
  try {
    for (let round = 0; round < 5; round += 1) {
      await server.sql(`update ${schema}.format set functions = 3`)
      const drivers = Array.from({ length: 4 }, () => postgres(server.url, { schema, listen: false, poolSize: 1 }))
      await Promise.all(drivers.map((driver) => driver.open()))
      for (const driver of drivers)
        expect(await claim(driver, claimOf('own', { mode: 'shared' }))).toMatchObject({ state: 'held' })
      await Promise.all(drivers.map((driver) => driver.close()))
    }
  } finally {
    ended.abort()
    await work
  }
})

test('an older version that waits while a newer one makes the schema does not put its functions in the place of newer ones', async () => {
  const schema = freshSchema('upgrade')
  const newer = new Client({ connectionString: server.url })
  await newer.connect()
  onTestFinished(() => newer.end())
  await newer.query('begin; select pg_advisory_xact_lock(7240618953041)')
  const driver = postgres(server.url, { schema, listen: false, sendTimeoutMs: 30_000 })
  onTestFinished(() => driver.close())
  const opening = driver.open()
  const waits = `select from pg_stat_activity where wait_event = 'advisory'`
  await eventually(async () => (await server.sql(waits)).length === 1, 'the older version')
  await newer.query(postgresSchema({ schema }))
  await newer.query(`
    update ${schema}.format set functions = 99;
    create or replace function ${schema}.tidy(keys_max integer) returns bigint language sql as 'select 99::bigint';
    commit`)
  await opening
  expect(await server.sql(`select ${schema}.tidy(1)::integer as revision`)).toEqual([{ revision: 99 }])
})

test('what advisory locks need is brought up to date too', async () => {
  const schema = freshSchema('upgrade')
  const before = postgresAdvisory(server.url, { schema })
  await before.open()
  await before.close()
  await server.sql(`
    drop function ${schema}.advisory_revision, ${schema}.advisory_draw;
    drop table ${schema}.advisory_kept_since;
    create unlogged table ${schema}.advisory_since (one boolean primary key default true, at timestamptz default now());
    create or replace function ${schema}.advisory_kept_for_ms() returns double precision language sql as 'select 1::double precision'`)
  const driver = await opened(postgresAdvisory(server.url, { schema }))
  expect(await claim(driver, claimOf('a', { wait: false, ttlMs: 20_000 }))).toMatchObject({ state: 'held' })
  expect(await driver.dataAgeMs?.()).toBeLessThan(60_000)
})

test('what an earlier revision noted of an eviction has no cause', async () => {
  const schema = freshSchema('upgrade')
  const driver = await opened(postgres(server.url, { schema, listen: false }))
  const { fence } = (await claim(driver, claimOf('a'))) as { fence: number }
  await ask(driver, { op: 'evict', key: 'a', fence, reason: 'stuck' })
  await server.sql(`update ${schema}.keys set ended = ended - 'cause' where key = 'a'`)
  const next = claimOf('a')
  for (const status of [await claim(driver, next), await renew(driver, next)]) {
    expect(status).toMatchObject({ state: 'held', after: { how: 'evicted', fence } })
    expect((status as HeldStatus).after).not.toHaveProperty('cause')
  }
})
