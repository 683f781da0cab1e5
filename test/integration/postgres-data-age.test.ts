import { execFileSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { Client } from 'pg'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { postgres, postgresSchema } from '../../src/drivers/postgres/driver.ts'
import { postgresAdvisory } from '../../src/drivers/postgres-advisory/driver.ts'
import { quorum } from '../../src/drivers/quorum/driver.ts'
import { claim, claimOf } from '../support/claims.ts'
import { eventually } from '../support/eventually.ts'
import { locksOn, opened } from '../support/opened.ts'
import { PostgresServer } from '../support/postgres-server.ts'

const server = await PostgresServer.start({ settings: { max_wal_senders: 4 } })
afterAll(() => server.destroy())

const makers: readonly [string, (url: string) => LockDriver][] = [
  ['logged tables', (url) => postgres(url, { schema: 'logged', listen: false })],
  ['unlogged tables', (url) => postgres(url, { schema: 'unlogged', unlogged: true, listen: false })],
  ['advisory locks', (url) => postgresAdvisory(url, { schema: 'advisory' })],
]

let claims = 0
/** A claim of a key that nobody has used. */
const wanted = () => claimOf(`key-${(claims += 1)}`, { ttlMs: 5000, wait: false })

/** What the driver says of the store, as soon as it can. */
async function uptimeOf(driver: LockDriver): Promise<number> {
  // Whoever votes by it has heard of no lock that was there before.
  await eventually(async () => (await claim(driver, wanted()).catch(() => undefined))?.state === 'held', 'the lock')
  return (await driver.dataAgeMs?.()) ?? Infinity
}

/** A session of the server's, by its process, and the end of it. */
async function session(): Promise<{ readonly processId: number; readonly ended: Promise<unknown> }> {
  const client = new Client({ connectionString: server.url })
  client.on('error', () => {})
  const ended = new Promise((resolve) => client.once('end', resolve))
  await client.connect()
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
  return { processId: rows[0]?.pid ?? 0, ended }
}

describe.each(makers)('a server with %s', (_, make) => {
  test('is no longer up than since the process of one session crashed, and took all locks with it', async () => {
    const driver = await opened(make(server.url))
    expect(await claim(driver, wanted())).toMatchObject({ state: 'held' })
    await driver.dataAgeMs?.()
    const [victim, witness] = [await session(), await session()]
    const crashedAt = performance.now()
    process.kill(victim.processId, 'SIGKILL')
    // The server trusts none of its processes after that, and begins anew.
    await witness.ended
    await eventually(() => server.sql('select 1').catch(() => undefined), 'the server')
    expect(await uptimeOf(driver)).toBeLessThan(performance.now() - crashedAt)
  })

  test('is no longer up than since it took over from another, whose locks it does not know', async () => {
    const primary = await opened(make(server.url))
    await claim(primary, wanted())
    await primary.dataAgeMs?.()
    const standby = await server.startStandby()
    onTestFinished(() => standby.destroy())
    const promotedAt = performance.now()
    await standby.sql('select pg_promote()')
    const driver = await opened(make(standby.url))
    expect(await uptimeOf(driver)).toBeLessThan(performance.now() - promotedAt)
  })
})

async function ageOf(driver: LockDriver): Promise<number> {
  return (await driver.dataAgeMs?.()) ?? Infinity
}

/** Whether the driver says that the store has kept its data only since then. */
async function isYounger(driver: LockDriver, thanAt: number): Promise<boolean> {
  return (await ageOf(driver)) < performance.now() - thanAt
}

describe.each([
  ['logged', false],
  ['unlogged', true],
])('tables (%s)', (kind, unlogged) => {
  const driverOf = (schema: string, url = server.url): LockDriver => postgres(url, { schema, unlogged, listen: false })

  test('have kept everything since they were created, and for as long as nothing happens to them', async () => {
    const openedAt = performance.now()
    const driver = await opened(driverOf(`kept_${kind}`))
    const first = (await driver.dataAgeMs?.()) ?? Infinity
    expect(first).toBeLessThan(performance.now() - openedAt)
    const later = await opened(driverOf(`kept_${kind}`))
    await eventually(async () => ((await later.dataAgeMs?.()) ?? 0) > first + 100, 'a greater age')
  })

  test('are young again once their schema was dropped', async () => {
    const schema = `dropped_${kind}`
    const driver = await opened(driverOf(schema))
    await claim(driver, wanted())
    await grownUp(schema, driver)
    const droppedAt = performance.now()
    await server.sql(`drop schema ${schema} cascade`)
    expect(await claim(driver, wanted())).toMatchObject({ state: 'held' })
    expect(await isYounger(driver, droppedAt)).toBe(true)
  })

  test('are young again once their database was dropped and created anew', async () => {
    const url = server.url.replace(/postgres$/, `again_${kind}`)
    await server.sql(`create database again_${kind}`)
    const before = driverOf('leasehold', url)
    await before.open()
    await before.close()
    const droppedAt = performance.now()
    await server.sql(`drop database again_${kind}`)
    await server.sql(`create database again_${kind}`)
    expect(await isYounger(await opened(driverOf('leasehold', url)), droppedAt)).toBe(true)
  })

  test('are young again once an older copy of them was restored, with the row that says since when', async () => {
    const schema = `restored_${kind}`
    const driver = await opened(driverOf(schema))
    await grownUp(schema, driver)
    const restoredAt = performance.now()
    // What pg_restore does: other tables with the same rows.
    await server.sql(`
      alter schema ${schema} rename to ${schema}_dump;
      ${postgresSchema({ schema, unlogged })}
      delete from ${schema}.kept_since;
      insert into ${schema}.kept_since select * from ${schema}_dump.kept_since`)
    expect(await isYounger(driver, restoredAt)).toBe(true)
  })

  test('are young again once they were truncated, as before a restore of rows alone', async () => {
    const schema = `truncated_${kind}`
    const driver = await opened(driverOf(schema))
    await grownUp(schema, driver)
    const truncatedAt = performance.now()
    await server.sql(`truncate ${schema}.claims, ${schema}.keys`)
    expect(await isYounger(driver, truncatedAt)).toBe(true)
    // Noticed once, and not again.
    await eventually(async () => ((await driver.dataAgeMs?.()) ?? 0) > 100, 'a greater age')
  })
})

test('a server that was started with older files has kept everything only since it was started', async () => {
  const other = await PostgresServer.start()
  onTestFinished(() => other.destroy())
  const driver = await opened(postgres(other.url, { listen: false }))
  await claim(driver, wanted())
  await other.stop('fast')
  const copy = `${other.directory}-copy`
  execFileSync('cp', ['-a', other.directory, copy])
  await other.resume()
  await eventually(async () => ((await driver.dataAgeMs?.().catch(() => 0)) ?? 0) > 0, 'an age')
  await other.stop('fast')
  rmSync(other.directory, { recursive: true })
  execFileSync('mv', [copy, other.directory])
  const startedAt = performance.now()
  await other.resume()
  const age = await eventually(() => driver.dataAgeMs?.().catch(() => undefined), 'an age')
  expect(age).toBeLessThan(performance.now() - startedAt)
})

test('a quorum of stores that come back empty grants nothing until what they forgot is over', async () => {
  const schemas = ['quorum_a', 'quorum_b', 'quorum_c']
  const drivers = schemas.map((schema) => postgres(server.url, { schema, listen: false }))
  const votesAfterMs = 8000
  for (const driver of drivers) await opened(driver)
  for (const schema of schemas) await server.sql(`update ${schema}.kept_since set at = at - interval '1 hour'`)
  const locks = await locksOn(quorum(drivers, { votesAfter: votesAfterMs }))
  const mayVote = async (): Promise<boolean> =>
    (await Promise.all(drivers.map(ageOf))).every((age) => age > votesAfterMs)
  await eventually(mayVote, 'stores that vote', 2 * votesAfterMs)
  const lease = await locks.tryAcquire('a', { ttl: votesAfterMs })
  expect(lease?.held).toBe(true)
  for (const schema of schemas) await server.sql(`drop schema ${schema} cascade`)
  const others = schemas.map((schema) => postgres(server.url, { schema, listen: false }))
  const rival = await locksOn(quorum(others, { votesAfter: votesAfterMs }))
  await expect(rival.tryAcquire('a', { ttl: votesAfterMs })).rejects.toMatchObject({ code: 'UNAVAILABLE' })
})

describe('a user with few rights', () => {
  const url = server.url.replace('postgres@', 'plain_user@')

  async function makeUser(schema: string): Promise<void> {
    await server.sql(`
      create role plain_user login;
      grant usage on schema ${schema} to plain_user;
      grant select, insert, update, delete on all tables in schema ${schema} to plain_user;
      grant usage on all sequences in schema ${schema} to plain_user`)
    onTestFinished(async () => void (await server.sql('drop owned by plain_user; drop role plain_user')))
  }

  test('who may use the tables may ask for their age', async () => {
    await opened(postgres(server.url, { schema: 'plain', listen: false }))
    await makeUser('plain')
    const driver = await opened(postgres(url, { schema: 'plain', listen: false }))
    expect(await driver.dataAgeMs?.()).toBeLessThan(60_000)
  })

  test('who may not see which copy of the data it is can use it all the same, and is told so when asking for its age', async () => {
    await server.sql('revoke execute on function pg_control_system() from public')
    onTestFinished(async () => void (await server.sql('grant execute on function pg_control_system() to public')))
    await opened(postgres(server.url, { schema: 'blind', listen: false }))
    await makeUser('blind')
    await server.sql('grant create on database postgres to plain_user')
    for (const schema of ['blind', 'own']) {
      const driver = await opened(postgres(url, { schema, listen: false }))
      expect(await claim(driver, wanted())).toMatchObject({ state: 'held' })
      await expect(driver.dataAgeMs?.()).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'auth' })
    }
  })
})

/** Makes a schema look an hour old, as far as the server itself is that old, and sees that the driver says so. */
async function grownUp(schema: string, driver: LockDriver): Promise<void> {
  await driver.dataAgeMs?.()
  await server.sql(`update ${schema}.kept_since set at = at - interval '1 hour'`)
  await eventually(async () => ((await driver.dataAgeMs?.()) ?? 0) > 1000, 'a grown-up store')
}
