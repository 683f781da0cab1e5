import { mkdirSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { bootIdentity } from '../../src/core/boot.ts'
import type { LockDriver } from '../../src/core/driver.ts'
import { openDatabase, type Database } from '../../src/drivers/sqlite/database.ts'
import handOver from '../../src/drivers/sqlite/hand-over.sql.generated.ts'
import schema from '../../src/drivers/sqlite/schema.sql.generated.ts'
import { applicationId } from '../../src/drivers/sqlite/store-file.ts'
import { claim, claimOf, release } from '../support/claims.ts'
import { scratch } from '../sqlite/scratch.ts'

const { file, driver: open } = scratch()
const key = 'default/named:x'
const called = (id: string) => claimOf(key, { id })
const boot = bootIdentity()
const owner = `${boot}_1_${process.pid}_1_0123456789abcdef`
const lastFence = 9_000_000_000_000
/** A time that does not come. */
const farAway = 8_000_000_000_000
const textOf = (id: string): string => JSON.stringify(called(id))

/** The file as an older version left it, with one claim that is held and one that waits, and still open there. */
function oldFile(format: 1 | 2): Database {
  mkdirSync(`${file()}.bells`)
  const old = openDatabase(file())
  old.exec(`${schema};
    insert into counters (one, fence, sequence, boot) values (1, ${lastFence}, 7, '${boot}');
    ${format === 1 ? '' : handOver};
    pragma application_id = ${applicationId}; pragma user_version = ${format}; pragma journal_mode = wal;
    insert into holders values ('${key}', 'a', 6, ${lastFence}, '${owner}', ${farAway}, 1, 1, 1, 1, 0, ${farAway}, 0,
      null, null, '${textOf('a')}');
    insert into waiters values ('${key}', 'b', 5000, 7, '${owner}', ${farAway}, 1, 1, 1, 0, ${farAway},
      '${textOf('b')}')`)
  return old
}

const fenceOf = async (driver: LockDriver, name: string): Promise<number> => {
  const standing = await claim(driver, claimOf(`default/named:${name}`))
  return standing.state === 'held' ? standing.fence : 0
}

describe.each([1, 2] as const)('a file of format %i', (format) => {
  test('is brought up to date, and keeps what is held, who waits and the fences', async () => {
    oldFile(format).close()
    const driver = await open({ file: file() })
    const { keys } = await driver.list({})
    expect(keys.map(({ claims }) => claims.map(({ id, state }) => [id, state]))).toEqual([
      [
        ['a', 'held'],
        ['b', 'waiting'],
      ],
    ])
    expect(await fenceOf(driver, 'y')).toBe(lastFence + 1)
    await release(driver, called('a'))
    expect(await claim(driver, called('b'))).toMatchObject({ state: 'held', fence: lastFence + 2 })
  })

  test('can be used on by those who have it open: fences go on for all', async () => {
    const old = oldFile(format)
    const driver = await open({ file: file() })
    const fences = [await fenceOf(driver, 'y')]
    // As older versions wrote, each by both of its ways.
    old.exec(`update counters set fence = fence + 1, sequence = sequence + 1, boot = '${boot}'`)
    fences.push(await fenceOf(driver, 'y2'))
    old.exec(`
      insert into holders select 'default/named:z', 'e', sequence + 1, fence + 1, '${owner}', 1000, 1, 1, 1, 1, 0, 9000, 0,
        null, null, '${textOf('e')}' from counters where boot = '${boot}'`)
    fences.push(await fenceOf(driver, 'y3'))
    expect(fences).toEqual([1, 3, 5].map((step) => lastFence + step))
    // One that queues in the old way is let in by the new one, in its turn.
    old.exec(`
      insert into waiters (key, id, band, arrival, owner, ttl_ms, detached, entered_at, last_heartbeat, renewal_count,
        expires_at, claim)
      select '${key}', 'g', 5000, sequence + 1, '${owner}', ${farAway}, 1, 1, 1, 0, ${farAway},
        '${textOf('g')}' from counters`)
    for (const id of ['a', 'b']) await release(driver, called(id))
    const { keys } = await driver.list({ key })
    expect(keys[0]?.claims).toMatchObject([{ id: 'g', state: 'held', fence: lastFence + 7 }])
    old.close()
  })
})
