import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { sqlite, type SqliteEnvironment } from '../../src/drivers/sqlite/driver.ts'
import { createLocks } from '../../src/index.ts'
import { openDatabase } from '../../src/drivers/sqlite/database.ts'
import { claim, claimOf, release } from '../support/claims.ts'
import { endProcessesAfterEach, run } from '../sqlite/processes.ts'
import { scratch } from '../sqlite/scratch.ts'
import { eventually } from '../support/eventually.ts'

const { file, driver } = scratch()
endProcessesAfterEach()

async function refusedAs(reason: string, options = {}): Promise<void> {
  await expect(driver({ file: file(), ...options })).rejects.toMatchObject({ code: 'UNAVAILABLE', reason })
}

describe('a file that is not ours', () => {
  test('is refused and left alone if it is no database', async () => {
    writeFileSync(file(), 'dear diary'.repeat(50))
    await refusedAs('foreign')
    expect(readFileSync(file(), 'utf8')).toBe('dear diary'.repeat(50))
  })

  test('is refused and left alone if it is a database of another program', async () => {
    const database = openDatabase(file())
    database.exec('create table holders (mine)')
    database.close()
    const before = readFileSync(file())
    await refusedAs('foreign')
    expect(readFileSync(file())).toEqual(before)
    expect(readdirSync(path.dirname(file()))).toEqual(['locks.sqlite'])
  })

  test('is refused if a newer Leasehold wrote it', async () => {
    await (await driver({ file: file() })).close()
    const bytes = readFileSync(file())
    // Where SQLite's header keeps the user version.
    bytes.writeUInt32BE(99, 60)
    writeFileSync(file(), bytes)
    await refusedAs('newer-format')
    expect(readFileSync(file())).toEqual(bytes)
  })
})

describe('a damaged file', () => {
  test('is named as such, and a new one in its place goes on with higher fences', async () => {
    const first = await driver({ file: file() })
    const status = await claim(first, claimOf('a'))
    await first.close()
    const database = openDatabase(file())
    // From the log into the file.
    database.query('pragma wal_checkpoint(truncate)').get()
    database.close()
    const bytes = readFileSync(file())
    bytes.fill(0xa5, 2048)
    writeFileSync(file(), bytes)
    const damaged = sqlite({ file: file() })
    await expect(damaged.open().then(() => claim(damaged, claimOf('a')))).rejects.toMatchObject({ reason: 'corrupt' })
    await damaged.close()

    for (const name of ['', '-wal', '-shm']) rmSync(`${file()}${name}`, { force: true })
    const again = await claim(await driver({ file: file() }), claimOf('a'))
    expect((again as { fence: number }).fence).toBeGreaterThan((status as { fence: number }).fence)
  })

  test('that was cut short is named as such', async () => {
    const first = await driver({ file: file() })
    await claim(first, claimOf('a'))
    await first.close()
    truncateSync(file(), 2048 + 100)
    const damaged = sqlite({ file: file() })
    await expect(damaged.open().then(() => claim(damaged, claimOf('a')))).rejects.toMatchObject({ reason: 'corrupt' })
    await damaged.close()
  })
})

describe('a place that cannot be written', () => {
  const isRoot = process.getuid?.() === 0

  test.runIf(isRoot)('is named as read-only, whether directory or file', async () => {
    const directory = path.dirname(file('mine/locks.sqlite'))
    await (await driver({ file: file('mine/locks.sqlite') })).close()
    for (const place of [path.dirname(directory), directory]) chmodSync(place, 0o755)
    chmodSync(file('mine/locks.sqlite'), 0o644)
    // Root may write anywhere, so somebody else has to try.
    for (const name of ['locks.sqlite', 'new.sqlite', 'further/down.sqlite']) {
      const child = run('sqlite-storm', [path.join(directory, name), '1'], { uid: 65_534, gid: 65_534 })
      expect(await child.ended()).toBe(1)
      expect(child.errors).toContain("reason: 'read-only'")
    }
  })

  test('is named as network-file-system where machines would share it', async () => {
    const environment: Partial<SqliteEnvironment> = { fileSystemType: () => 0x6969 }
    await refusedAs('network-file-system', { environment })
    const asked = await driver({ file: file(), environment, networkFileSystem: true })
    expect(await claim(asked, claimOf('a'))).toMatchObject({ state: 'held' })
  })

  test('is named if a file stands where a directory should', async () => {
    writeFileSync(file('in-the-way'), '')
    await expect(driver({ file: file('in-the-way/locks.sqlite') })).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  })
})

describe('a full disk', () => {
  let mounted: string | undefined
  afterEach(() => {
    if (mounted !== undefined) execFileSync('umount', ['-l', mounted])
    mounted = undefined
  })

  test('is named as such, loses nothing, and is forgotten once there is room', async ({ skip }) => {
    const place = file('small')
    mkdirSync(place)
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=400k', 'tmpfs', place], { stdio: 'ignore' })
      mounted = place
    } catch {
      skip('mounting a small disk needs root')
    }
    const own = await driver({ file: path.join(place, 'locks.sqlite') })
    const held = claimOf('held')
    const granted = await claim(own, held)
    writeFileSync(path.join(place, 'ballast'), '')
    const fault = await fillUp(own, path.join(place, 'ballast'))
    expect(fault).toMatchObject({ code: 'UNAVAILABLE', reason: 'full' })
    rmSync(path.join(place, 'ballast'))
    expect(await claim(own, held)).toMatchObject({ state: 'held', fence: (granted as { fence: number }).fence })
    expect(await release(own, held)).toMatchObject({ state: 'absent', reason: 'released' })
  })

  /** Takes up all room, then claims until the log has none left. */
  async function fillUp(own: LockDriver, ballast: string): Promise<unknown> {
    for (let size = 64 * 1024; size >= 1024;) {
      try {
        writeFileSync(ballast, Buffer.alloc(size), { flag: 'a' })
      } catch {
        size /= 2
      }
    }
    for (let name = 0; name < 2000; name += 1) {
      try {
        await claim(own, claimOf(`filler-${name}`, { wait: false }))
      } catch (error) {
        return error
      }
    }
    return undefined
  }
})

test('a file deleted under a driver is made anew, and the old one is no longer used', async () => {
  const own = await driver({ file: file() })
  const held = claimOf('a')
  const granted = await claim(own, held)
  for (const name of readdirSync(path.dirname(file()))) {
    rmSync(path.join(path.dirname(file()), name), { recursive: true })
  }
  const other = await driver({ file: file() })
  expect(await claim(other, claimOf('b'))).toMatchObject({ state: 'held' })
  // Both are on the same file again within a second or so, and there the old claim is unknown.
  const status = await eventually(async () => {
    const keys = (await own.list({})).keys.map(({ key }) => key)
    return keys.includes('b') ? keys : undefined
  }, 'the new file')
  expect(status).toEqual(['b'])
  const next = await claim(own, claimOf('a'))
  expect((next as { fence: number }).fence).toBeGreaterThan((granted as { fence: number }).fence)
})

test('the file and its inboxes are for their owner alone', async () => {
  await driver({ file: file('made/locks.sqlite') })
  expect(statSync(path.dirname(file('made/locks.sqlite'))).mode & 0o777).toBe(0o700)
  expect(statSync(file('made/locks.sqlite')).mode & 0o777).toBe(0o600)
  expect(statSync(`${file('made/locks.sqlite')}.inboxes`).mode & 0o777).toBe(0o700)
})

test('a file kept busy by somebody else is UNAVAILABLE after the set patience, and the event loop goes on meanwhile', async () => {
  const own = await driver({ file: file(), busyTimeoutMs: 3000 })
  const hog = openDatabase(file())
  hog.exec('begin immediate')
  let turns = 0
  const counting = setInterval(() => (turns += 1), 5)
  await expect(claim(own, claimOf('a'))).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'busy' })
  clearInterval(counting)
  expect(turns).toBeGreaterThan(10)
  hog.exec('rollback')
  hog.close()
  expect(await claim(own, claimOf('a'))).toMatchObject({ state: 'held' })
})

test('while a process is stopped in mid-transaction holders are told in time, and who waits goes on afterwards', async () => {
  const defaults = { ttl: 2000 }
  await using one = await createLocks({ driver: sqlite({ file: file() }), defaults })
  await using other = await createLocks({ driver: sqlite({ file: file() }), defaults })
  const lease = await one.acquire('a')
  const waiting = other.acquire('a')
  await eventually(async () => (await other.inspect('a'))?.waiters[0], 'the waiter')
  const stopped = openDatabase(file())
  stopped.exec('begin immediate')
  await eventually(() => lease.signal.aborted, 'the news of the loss')
  expect(await Promise.race([waiting, Promise.resolve('still waits')])).toBe('still waits')
  stopped.exec('rollback')
  stopped.close()
  expect((await waiting).fence).toBeGreaterThan(lease.fence)
})

test('waiters are woken by polling where fs.watch fails', async () => {
  const watch = () => {
    throw Object.assign(new Error('too many watchers'), { code: 'EMFILE' })
  }
  const one = await driver({ file: file(), environment: { watch } })
  const other = await driver({ file: file(), environment: { watch } })
  const held = claimOf('a')
  const waiting = claimOf('a')
  const received: unknown[] = []
  other.listen?.((_key, _id, notification) => received.push(notification))
  await claim(one, held)
  await claim(other, waiting)
  await release(one, held)
  expect(await eventually(() => received[0], 'the grant')).toMatchObject({ state: 'held' })
})

test('a closed driver refuses, leaves no inbox and lets its claims be', async () => {
  const own = await driver({ file: file() })
  const held = claimOf('a')
  await claim(own, held)
  await own.close()
  await own.close()
  await expect(claim(own, claimOf('b'))).rejects.toMatchObject({ code: 'CLOSED' })
  expect(readdirSync(`${file()}.inboxes`)).toEqual([])
  expect((await (await driver({ file: file() })).list({})).keys).toHaveLength(1)
})
