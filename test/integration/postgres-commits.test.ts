import { Client } from 'pg'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Claim, ClaimStatus, LockDriver } from '../../src/core/contract/driver.ts'
import { postgres } from '../../src/drivers/postgres/driver.ts'
import { claim, claimOf, claiming, release, renew } from '../support/claims.ts'
import { eventually } from '../support/eventually.ts'
import { opened } from '../support/opened.ts'
import { PostgresServer } from '../support/postgres-server.ts'

// What is not committed to the disk with its answer is lost by a crash: the log is written on its own after ten seconds only.
const server = await PostgresServer.start({ durable: true, settings: { wal_writer_delay: '10s', fsync: 'off' } })
afterAll(() => server.destroy())

const withGrace = (key: string): Claim => claimOf(key, { graceMs: 1000 })

describe('a crash right after the answer keeps', () => {
  const ways: Readonly<Record<string, (driver: LockDriver, key: string) => Promise<Claim>>> = {
    'a claim that came alone': async (driver, key) => {
      const holder = claimOf(key)
      await claim(driver, holder)
      return holder
    },
    'a claim of a batch': async (driver, key) => {
      const holder = claimOf(key)
      await driver.send([holder, claimOf(`${key}-other`)].map(claiming))
      return holder
    },
    'a claim that is not plain': async (driver, key) => {
      const holder = claimOf(key, { mode: 'shared', limit: 2 })
      await claim(driver, holder)
      return holder
    },
    'a claim beside one that it shares with': async (driver, key) => {
      await claim(driver, claimOf(key, { mode: 'shared' }))
      const holder = claimOf(key, { mode: 'shared' })
      await claim(driver, holder)
      return holder
    },
    'what a release has handed over': async (driver, key) => {
      const [first, holder] = [claimOf(key), claimOf(key)]
      await claim(driver, first)
      await claim(driver, holder)
      await release(driver, first)
      return holder
    },
    'what a release has handed over by the rule': async (driver, key) => {
      const [first, holder] = [withGrace(key), withGrace(key)]
      await claim(driver, first)
      await claim(driver, holder)
      await release(driver, first)
      return holder
    },
    'what a renewal by a waiter has granted to another': async (driver, key) => {
      const dying = claimOf(key, { ttlMs: 300, graceMs: 100 })
      const [reader, writer] = [claimOf(key, { mode: 'shared' }), claimOf(key, { priority: -1 })]
      for (const each of [dying, reader, writer]) await claim(driver, each)
      await eventually(async () => {
        const { now, keys } = await driver.list({ key })
        return keys.every(({ claims }) => claims.every(({ id, expiresAt }) => id !== dying.id || now > expiresAt + 100))
      }, 'The end of the first')
      expect(await renew(driver, writer)).toMatchObject({ state: 'waiting' })
      return reader
    },
  }

  test.each(Object.entries(ways))('%s', async (_, take) => {
    const schema = `crash_${Math.random().toString(36).slice(2)}`
    const driver = postgres(server.url, { schema })
    await driver.open()
    const holder = await take(driver, 'orders/1')
    await server.stop('immediate')
    await driver.close()
    await server.resume()
    const after = await opened(postgres(server.url, { schema }))
    expect(await renew(after, holder)).toMatchObject({ state: 'held' })
  })
})

describe('time that a request waits for the row of its key counts', () => {
  /** Sends while another session has the row, until the lease of `over` has ended by the store's clock. */
  async function sendLate(driver: LockDriver, key: string, send: () => Promise<ClaimStatus>): Promise<ClaimStatus> {
    const blocker = new Client({ connectionString: server.url })
    await blocker.connect()
    try {
      await blocker.query('begin')
      await blocker.query('select from late.keys where key = $1 for update', [key])
      const [{ pid } = { pid: 0 }] = (await blocker.query<{ pid: number }>('select pg_backend_pid() as pid')).rows
      const answer = send()
      await eventually(async () => {
        const rows = await server.sql('select from pg_stat_activity where $1 = any (pg_blocking_pids(pid))', [pid])
        return rows.length > 0
      }, 'A request that waits for the row')
      await eventually(async () => {
        const { now, keys } = await driver.list({ key })
        return keys.every(({ claims }) =>
          claims.every(({ state, expiresAt }) => state === 'waiting' || now > expiresAt),
        )
      }, 'The end of the lease')
      await blocker.query('commit')
      return await answer
    } finally {
      await blocker.end()
    }
  }

  async function late(): Promise<LockDriver> {
    onTestFinished(async () => void (await server.sql('drop schema if exists late cascade')))
    return opened(postgres(server.url, { schema: 'late', sendTimeoutMs: 60_000 }))
  }

  test('a claim that the rule decides finds the holder over', async () => {
    const driver = await late()
    await claim(driver, claimOf('a', { ttlMs: 1500 }))
    const wanted = claimOf('a', { priority: 1 })
    expect(await sendLate(driver, 'a', () => claim(driver, wanted))).toMatchObject({ state: 'held' })
  })

  test('a holder that hands over too late has lost the lock, and its successor hears of that', async () => {
    const driver = await late()
    const holder = claimOf('b', { ttlMs: 1500 })
    await claim(driver, holder)
    const next = claimOf('b')
    await claim(driver, next)
    const released = await sendLate(driver, 'b', () => release(driver, holder))
    expect(released).toEqual({ state: 'absent', reason: 'expired' })
    expect(await renew(driver, next)).toMatchObject({ state: 'held', after: { how: 'expired' } })
  })
})
