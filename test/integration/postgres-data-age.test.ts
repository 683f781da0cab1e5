import { Client } from 'pg'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import type { LockDriver } from '../../src/core/driver.ts'
import { postgres } from '../../src/drivers/postgres.ts'
import { postgresAdvisory } from '../../src/drivers/postgres-advisory.ts'
import { claim, claimOf } from '../support/claims.ts'
import { eventually } from '../support/eventually.ts'
import { opened } from '../support/opened.ts'
import { PostgresServer } from '../support/postgres-server.ts'

const server = await PostgresServer.start({ settings: { max_wal_senders: 4 } })
afterAll(() => server.destroy())

const makers: readonly [string, (url: string) => LockDriver][] = [
  ['unlogged tables', (url) => postgres(url, { schema: 'unlogged', unlogged: true, listen: false })],
  ['advisory locks', (url) => postgresAdvisory(url, { schema: 'advisory' })],
]

const wanted = () => claimOf('a', { ttlMs: 5000, wait: false })

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

test('tables that are logged lose nothing, and those that are not are known by what they are', async () => {
  const logged = await opened(postgres(server.url, { schema: 'logged', listen: false }))
  expect(await logged.dataAgeMs?.()).toBe(Infinity)
  await opened(postgres(server.url, { schema: 'unlogged', unlogged: true, listen: false }))
  const unaware = await opened(postgres(server.url, { schema: 'unlogged', listen: false }))
  expect(await unaware.dataAgeMs?.()).toBeLessThan(Infinity)
})

test('a schema of an earlier revision gets what it lacks when it is opened', async () => {
  await opened(postgres(server.url, { schema: 'earlier', unlogged: true, listen: false }))
  await opened(postgresAdvisory(server.url, { schema: 'earlier' }))
  await server.sql(`
    drop function earlier.kept_for_ms; drop table earlier.since; update earlier.format set functions = 3;
    drop function earlier.advisory_kept_for_ms; drop table earlier.advisory_since`)
  const leases = await opened(postgres(server.url, { schema: 'earlier', unlogged: true, listen: false }))
  expect(await leases.dataAgeMs?.()).toBeLessThan(60_000)
  const advisory = await opened(postgresAdvisory(server.url, { schema: 'earlier' }))
  expect(await advisory.dataAgeMs?.()).toBeLessThan(60_000)
})
