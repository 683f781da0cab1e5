import { assert, array, property, type Parameters } from 'fast-check'
import { rmSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { bootIdentity } from '../../src/core/machine/boot.ts'
import type { Ended } from '../../src/core/claim-record.ts'
import type { Claim, LockDriver } from '../../src/core/driver.ts'
import { monotonicMs } from '../../src/core/time/environment.ts'
import { ownProcess } from '../../src/core/machine/liveness.ts'
import { newOwner, ownerName } from '../../src/core/machine/owner.ts'
import { decodeRow } from '../../src/drivers/sqlite/claim-row.ts'
import { connect, createTables } from '../../src/drivers/sqlite/connection.ts'
import { openDatabase, type Database } from '../../src/drivers/sqlite/database.ts'
import { systemSqliteEnvironment } from '../../src/drivers/sqlite/sqlite-environment.ts'
import { anyClaim } from '../sqlite/any-claim.ts'
import { statementsOf } from '../sqlite/formats/statements.ts'
import { makeOldFile, type OldContents, type OldFormat } from '../sqlite/old-file.ts'
import { scratch } from '../sqlite/scratch.ts'
import { ask, claim, claimOf, release, renew } from '../support/claims.ts'

const { file, driver: open } = scratch()
const key = 'default/named:x'
const called = (id: string, wish: Partial<Claim> = {}): Claim => claimOf(key, { id, ...wish })
const boot = bootIdentity()
/** A driver of this very process, which is alive. */
const owner = ownerName(newOwner(boot, ownProcess()))
const lastFence = 9_000_000_000_000
const now = Math.floor(monotonicMs())
const times = { owner, enteredAt: now - 30, lastHeartbeat: now, expiresAt: now + 60_000 }

/** One claim is held and three wait, each by a live process; the last that came is the most urgent. */
const contents: OldContents = {
  fence: lastFence,
  sequence: 9,
  boot,
  held: [{ ...times, claim: called('a'), turn: 6, fence: lastFence, acquiredAt: now - 20 }],
  waiting: [
    { ...times, claim: called('b'), arrival: 7 },
    { ...times, claim: called('c'), arrival: 8 },
    { ...times, claim: called('d', { priority: 5 }), arrival: 9 },
  ],
}

const idsIn = async (driver: LockDriver): Promise<unknown> =>
  (await driver.list({ key })).keys.flatMap(({ claims }) => claims.map(({ id, state, fence }) => [id, state, fence]))

const formatOf = (database: Database): unknown => database.query('pragma user_version').get()?.['user_version']

describe.each<OldFormat>([1, 2, 3])('a file of format %i', (format) => {
  test('is upgraded when it is opened, and its holder renews and releases under its id', async () => {
    makeOldFile(file(), format, contents).close()
    const driver = await open({ file: file() })
    expect(await idsIn(driver)).toEqual([
      ['a', 'held', lastFence],
      ['d', 'waiting', 0],
      ['b', 'waiting', 0],
      ['c', 'waiting', 0],
    ])
    expect(await renew(driver, called('a'))).toMatchObject({ state: 'held', fence: lastFence, ttlMs: 60_000 })
    expect(await release(driver, called('a'))).toEqual({ state: 'absent', reason: 'released' })
    expect(await renew(driver, called('a'))).toMatchObject({ state: 'absent' })
  })

  test('keeps the order of those who wait, and fences go on', async () => {
    makeOldFile(file(), format, contents).close()
    const clock = { now: monotonicMs, wall: () => 0 }
    const driver = await open({ file: file(), surroundings: { clock } })
    expect(await claim(driver, claimOf('default/named:y'))).toMatchObject({ state: 'held', fence: lastFence + 1 })
    expect(await claim(driver, called('e'))).toMatchObject({ state: 'waiting', ahead: 3 })
    const granted: unknown[] = []
    for (const id of ['a', 'd', 'b', 'c']) {
      await release(driver, called(id))
      granted.push(((await idsIn(driver)) as unknown[][])[0])
    }
    expect(granted).toEqual(['d', 'b', 'c', 'e'].map((id, step) => [id, 'held', lastFence + 2 + step]))
  })

  test('has the claims of processes that have died ended, as ever', async () => {
    const dead = ownerName(newOwner(boot, { ...ownProcess(), started: 1 }))
    const held = contents.held?.map((row) => ({ ...row, owner: dead }))
    makeOldFile(file(), format, { ...contents, ...(held && { held }) }).close()
    const driver = await open({ file: file() })
    expect(await renew(driver, called('d'))).toMatchObject({ state: 'held', after: { how: 'died', fence: lastFence } })
  })

  test('has its endings and sightings still, and the boot that wrote last', async () => {
    const { runner } = claimOf(key)
    const ended = (id: string, detail?: string): Ended => {
      const how = detail === undefined ? 'expired' : 'evicted'
      return { id, how, detail, fence: 4, runner, until: now + 60_000, told: false }
    }
    const foreign = { ...times, owner: 'another_1_2_3_0123456789abcdef', lastHeartbeat: 77, expiresAt: 600_077 }
    const seen = claimOf('seen', { ttlMs: 600_000 })
    makeOldFile(file(), format, {
      fence: lastFence,
      sequence: 3,
      boot: 'another',
      held: [{ ...foreign, claim: seen, turn: 1, fence: 3, acquiredAt: 0, renewalCount: 8 }],
      ended: [
        { key: 'over', boot, details: ended('one') },
        { key: 'evicted', boot, details: ended('two', 'by hand') },
        { key: 'elsewhere', boot: 'another', details: ended('three') },
      ],
      sightings: [['seen', seen.id, boot, 8, now - 4_000]],
    }).close()
    const driver = await open({ file: file() })
    const { keys } = await driver.list({ key: 'seen' })
    // First seen then, and granted in no clock of ours.
    expect(keys[0]?.claims).toMatchObject([{ lastHeartbeat: now - 4_000, acquiredAt: now - 4_000, renewalCount: 8 }])
    expect(keys[0]?.claims).toMatchObject([{ expiresAt: now + 596_000 }])
    expect(await ask(driver, { op: 'renew', key: 'evicted', id: 'two', ttlMs: 5 })).toEqual({
      state: 'absent',
      reason: 'evicted',
      detail: 'by hand',
    })
    const next = await claim(driver, claimOf('over'))
    expect(next).toMatchObject({ state: 'held', after: { how: 'expired', fence: 4, runner } })
    // Another boot may have lost fences that it had minted.
    expect((next as { fence: number }).fence).toBeGreaterThan(100 * lastFence)
  })

  test('loses nothing of any claim', () => {
    const options: Parameters<unknown> = { numRuns: 10 }
    const many = array(anyClaim, { minLength: 1, maxLength: 40 })
    const held = { ...times, acquiredAt: now, leaving: 'preempted', renewalCount: 3 }
    assert(
      property(many, many, (holders, waiters) => {
        for (const name of ['', '-wal', '-shm', '.inboxes']) rmSync(file() + name, { recursive: true, force: true })
        const rows = holders.map((wanted, index) => ({
          ...held,
          claim: { ...wanted, key: `held ${index}` },
          turn: index + 1,
          fence: index + 1,
          ttlMs: index % 2 === 0 ? wanted.ttlMs : 5,
          detached: index % 3 === 0,
          succession: { how: 'max-hold', fence: index, runner: wanted.runner } as const,
        }))
        const queue = waiters.map((wanted, index) => ({
          ...times,
          claim: { ...wanted, key: 'awaited' },
          arrival: index + 1,
        }))
        makeOldFile(file(), format, { ...contents, held: rows, waiting: queue }).close()
        const { database, statements } = connect(file(), systemSqliteEnvironment(), false)
        try {
          for (const { turn, ...row } of rows) {
            const read = decodeRow(statements.holderOf.get(row.claim.key) ?? {}, 'held')
            expect(read).toEqual({ ...row, state: 'held', order: turn, died: false })
          }
          for (const { claim: wanted, arrival } of queue) {
            const read = decodeRow(statements.waiterOf.get('awaited', wanted.id) ?? {}, 'waiting')
            expect(read).toMatchObject({ claim: wanted, order: arrival, ...times, ttlMs: wanted.ttlMs })
          }
        } finally {
          database.close()
        }
      }),
      options,
    )
  })

  test('is refused, and left as it is, if a claim in it cannot be read', async () => {
    const old = makeOldFile(file(), format, contents)
    old.exec(`update waiters set claim = 'mine' where id = 'c'`)
    await expect(open({ file: file() })).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'corrupt' })
    expect(formatOf(old)).toBe(format)
    expect(old.query('select id from waiters order by id').all()).toHaveLength(3)
    old.close()
  })

  test('is out of reach for a driver of that time that has it open', async () => {
    const old = makeOldFile(file(), format, contents)
    const before = statementsOf(format).map((sql) => ({ sql, statement: old.command(sql), values: valuesFor(sql) }))
    const driver = await open({ file: file() })
    const stored = await idsIn(driver)
    for (const { sql, statement, values } of before) {
      expect(() => statement.run(...values), sql).toThrow(
        /no such table: (main\.)?(holders|waiters|ended|sightings|counters)$/,
      )
    }
    expect(await idsIn(driver)).toEqual(stored)
    expect(formatOf(old)).toBe(4)
    old.close()
  })
})

/** Something for every place in a statement that wants a value. */
function valuesFor(sql: string): number[] {
  const numbered = Array.from(sql.matchAll(/\?(\d+)/g), ([, number]) => Number(number))
  const count = numbered.length > 0 ? Math.max(...numbered) : sql.split('?').length - 1
  return Array.from({ length: count }, () => 1)
}

test('a new file has the tables of an upgraded one, and smaller pages', async () => {
  const look = (name: string): [tables: unknown, pageBytes: unknown] => {
    const database = openDatabase(file(name))
    const tables = database.query('select type, name, sql from sqlite_master order by type, name').all()
    const page = database.query('pragma page_size').get()
    database.close()
    return [tables, page?.['page_size']]
  }
  makeOldFile(file('old.sqlite'), 1, contents).close()
  for (const name of ['old.sqlite', 'new.sqlite']) await (await open({ file: file(name) })).close()
  const [tables, pageBytes] = look('new.sqlite')
  expect(pageBytes).toBe(2048)
  expect(look('old.sqlite')).toEqual([tables, 4096])
})

test.each<OldFormat | 'none'>([1, 2, 3, 'none'])(
  'of two that open a file (format %s) at once, the later leaves it as it is',
  (format) => {
    if (format !== 'none') makeOldFile(file(), format, contents).close()
    const database = openDatabase(file())
    const late: Database = {
      ...database,
      exec(sql) {
        // The other has looked at the same file, and is through with it by now.
        if (sql === 'begin immediate') connect(file(), systemSqliteEnvironment(), false).database.close()
        database.exec(sql)
      },
    }
    createTables(late, file())
    expect(formatOf(database)).toBe(4)
    expect(database.query('select fence from tally').all()).toEqual([{ fence: format === 'none' ? 0 : lastFence }])
    database.close()
  },
)
