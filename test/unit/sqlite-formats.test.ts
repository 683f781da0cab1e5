import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { bootIdentity } from '../../src/core/boot.ts'
import type { Claim, LockDriver, Request } from '../../src/core/driver.ts'
import { sqlite } from '../../src/drivers/sqlite.ts'
import { openDatabase, type Database } from '../../src/drivers/sqlite/database.ts'
import handOver from '../../src/drivers/sqlite/hand-over.sql.generated.ts'
import schema from '../../src/drivers/sqlite/schema.sql.generated.ts'
import { applicationId } from '../../src/drivers/sqlite/store-file.ts'

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

const claim: Claim = {
  id: 'a',
  key: 'default/named:x',
  mode: 'exclusive',
  priority: 0,
  wait: true,
  ttlMs: 60_000,
  graceMs: 0,
  runner: { id: 'runner', incarnation: 'one', host: 'here', pid: 1, client: 'client' },
}
const boot = bootIdentity()
const owner = `${boot}_1_${process.pid}_1_0123456789abcdef`
const lastFence = 9_000_000_000_000
/** A time that does not come. */
const farAway = 8_000_000_000_000
const release = (key: string, id: string): Request => ({ op: 'release', key, id })

/** A file as an older version left it, with one claim that is held and one that waits, and still open there. */
function oldFile(format: 1 | 2): { file: string; old: Database } {
  const folder = mkdtempSync(join(tmpdir(), 'leasehold-formats-'))
  folders.push(folder)
  const file = join(folder, 'locks.sqlite')
  mkdirSync(`${file}.bells`)
  const old = openDatabase(file)
  const text = (id: string) => JSON.stringify({ ...claim, id })
  old.exec(`${schema};
    insert into counters (one, fence, sequence, boot) values (1, ${lastFence}, 7, '${boot}');
    ${format === 1 ? '' : handOver};
    pragma application_id = ${applicationId}; pragma user_version = ${format}; pragma journal_mode = wal;
    insert into holders values ('${claim.key}', 'a', 6, ${lastFence}, '${owner}', ${farAway}, 1, 1, 1, 1, 0, ${farAway}, 0,
      null, null, '${text('a')}');
    insert into waiters values ('${claim.key}', 'b', 5000, 7, '${owner}', ${farAway}, 1, 1, 1, 0, ${farAway},
      '${text('b')}')`)
  return { file, old }
}

const fenceOf = async (driver: LockDriver, key: string, id: string): Promise<number> => {
  const [standing] = await driver.send([{ op: 'claim', claim: { ...claim, key, id } }])
  return standing?.state === 'held' ? standing.fence : 0
}

describe.each([1, 2] as const)('a file of format %i', (format) => {
  test('is brought up to date, and keeps what is held, who waits and the fences', async () => {
    const { file, old } = oldFile(format)
    old.close()
    const driver = sqlite({ file })
    const { keys } = await driver.list({})
    expect(keys.map(({ claims }) => claims.map(({ id, state }) => [id, state]))).toEqual([
      [
        ['a', 'held'],
        ['b', 'waiting'],
      ],
    ])
    expect(await fenceOf(driver, 'default/named:y', 'c')).toBe(lastFence + 1)
    await driver.send([release(claim.key, 'a')])
    expect(await driver.send([{ op: 'claim', claim: { ...claim, id: 'b' } }])).toMatchObject([
      { state: 'held', fence: lastFence + 2 },
    ])
    await driver.close()
  })

  test('can be used on by those who have it open: fences go on for all', async () => {
    const { file, old } = oldFile(format)
    const driver = sqlite({ file })
    const fences = [await fenceOf(driver, 'default/named:y', 'c')]
    // As older versions wrote, each by both of its ways.
    old.exec(`update counters set fence = fence + 1, sequence = sequence + 1, boot = '${boot}'`)
    fences.push(await fenceOf(driver, 'default/named:y2', 'd'))
    old.exec(`
      insert into holders select 'default/named:z', 'e', sequence + 1, fence + 1, '${owner}', 1000, 1, 1, 1, 1, 0, 9000, 0,
        null, null, '${JSON.stringify({ ...claim, id: 'e' })}' from counters where boot = '${boot}'`)
    fences.push(await fenceOf(driver, 'default/named:y3', 'f'))
    expect(fences).toEqual([1, 3, 5].map((step) => lastFence + step))
    // One that queues in the old way is let in by the new one, in its turn.
    old.exec(`
      insert into waiters (key, id, band, arrival, owner, ttl_ms, detached, entered_at, last_heartbeat, renewal_count,
        expires_at, claim)
      select '${claim.key}', 'g', 5000, sequence + 1, '${owner}', ${farAway}, 1, 1, 1, 0, ${farAway},
        '${JSON.stringify({ ...claim, id: 'g' })}' from counters`)
    for (const id of ['a', 'b']) await driver.send([release(claim.key, id)])
    const { keys } = await driver.list({ key: claim.key })
    expect(keys[0]?.claims).toMatchObject([{ id: 'g', state: 'held', fence: lastFence + 7 }])
    old.close()
    await driver.close()
  })
})
