/** A lock file that is deleted, replaced or copied: nobody is granted what somebody still holds. */
import {
  chmodSync,
  chownSync,
  lchownSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import type { LockDriver, ClaimStatus } from '../../src/core/contract/driver.ts'
import { sqlite } from '../../src/drivers/sqlite/driver.ts'
import { openDatabase } from '../../src/drivers/sqlite/database.ts'
import { claim, claimOf, release, renew } from '../support/claims.ts'
import { ClientProcess, endProcessesAfterEach } from '../sqlite/processes.ts'
import { scratch } from '../sqlite/scratch.ts'
import { eventually } from '../support/eventually.ts'
import { signalTo } from '../support/signal.ts'

const { file, driver } = scratch()
endProcessesAfterEach()

/** A copy of what the file holds now, as a backup makes it. */
function backUp(): string {
  const database = openDatabase(file())
  database.exec(`vacuum into '${file('backup.sqlite')}'`)
  database.close()
  return file('backup.sqlite')
}

function removeFile(): void {
  for (const name of ['', '-wal', '-shm']) rmSync(`${file()}${name}`, { force: true })
}

function removeBeside(...endings: string[]): void {
  for (const ending of endings) rmSync(`${file()}${ending}`)
}

const ways: Readonly<Record<string, () => void>> = {
  'is deleted': removeFile,
  'is replaced by a backup': () => {
    const backup = backUp()
    removeFile()
    renameSync(backup, file())
  },
}

const waysBeside: Readonly<Record<string, () => void>> = {
  'loses its log': () => removeBeside('-wal', '-shm'),
  'loses the index of its log': () => removeBeside('-shm'),
}

describe.each(Object.entries(ways))('when the file %s under a holder', (_way, replace) => {
  test('nobody is granted the lock before the holder has been told that it is lost', async () => {
    const holding = await driver({ file: file() })
    const told: ClaimStatus[] = []
    holding.listen?.((_key, _id, notification) => notification !== 'poll' && told.push(notification))
    await claim(holding, claimOf('a', { ttlMs: 600_000 }))
    replace()
    const next = await driver({ file: file() })
    expect(told).toMatchObject([{ state: 'absent', reason: 'unknown' }])
    expect(await claim(next, claimOf('b'))).toMatchObject({ state: 'held' })
    // And goes on with the file that is there now.
    expect(await claim(holding, claimOf('b', { wait: false }))).toMatchObject({ state: 'absent', reason: 'refused' })
  })
})

describe.each(Object.entries({ ...ways, ...waysBeside }))('when the file %s under a process', (_way, replace) => {
  test('a holder in another process, which is idle, is told before anybody is granted the lock', async () => {
    const holder = await ClientProcess.start(file())
    const held = claimOf('a', { ttlMs: 600_000 })
    expect(await holder.claim(held)).toMatchObject({ state: 'held' })
    replace()
    const next = await driver({ file: file() })
    const status = await claim(next, claimOf('b'))
    expect(status).toMatchObject({ state: 'held' })
    await expect
      .poll(() => holder.received)
      .toMatchObject([{ id: held.id, notification: { state: 'absent', reason: 'unknown' } }])
  })

  test('a process that stands still, and may believe that it holds, keeps everybody out', async () => {
    const holder = await ClientProcess.start(file())
    await holder.claim(claimOf('a', { ttlMs: 600_000 }))
    signalTo(holder.child, 'SIGSTOP')
    replace()
    const refused = sqlite({ file: file(), busyTimeoutMs: 300 })
    await expect(refused.open()).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'replaced' })
    await refused.close()
    signalTo(holder.child, 'SIGCONT')
    expect(await claim(await driver({ file: file() }), claimOf('b'))).toMatchObject({ state: 'held' })
  })
})

test('when the file is deleted with all that lies beside it, an idle holder is told at once', async () => {
  const holder = await ClientProcess.start(file())
  const held = claimOf('a', { ttlMs: 600_000 })
  await holder.claim(held)
  removeFile()
  rmSync(`${file()}.inboxes`, { recursive: true })
  await expect
    .poll(() => holder.received)
    .toMatchObject([{ id: held.id, notification: { state: 'absent', reason: 'unknown' } }])
})

test.each(Object.entries({ ...waysBeside, 'is deleted without its log': () => rmSync(file()) }))(
  'when the file %s, the holder is told',
  async (_way, lose) => {
    const holding = await driver({ file: file() })
    const told: ClaimStatus[] = []
    holding.listen?.((_key, _id, notification) => notification !== 'poll' && told.push(notification))
    await claim(holding, claimOf('a'))
    lose()
    await eventually(async () => {
      // Where statements end with the garbage collector, SQLite has the old log until then, and says so.
      await holding.list({}).catch(() => {})
      return told[0]
    }, 'the news')
    const elsewhere = await ClientProcess.start(file())
    expect(await elsewhere.claim(claimOf('b'))).toMatchObject({ state: 'held' })
  },
)

test.each(Object.entries(ways))('when the file %s, whoever waits is told to ask again', async (_way, replace) => {
  const [holding, waiting] = [await driver({ file: file() }), await driver({ file: file() })]
  await claim(holding, claimOf('a'))
  expect(await claim(waiting, claimOf('a'))).toMatchObject({ state: 'waiting' })
  let gaps = 0
  waiting.listen?.(
    () => {},
    () => (gaps += 1),
  )
  replace()
  // Whoever opens the file that is there now makes the others look.
  await driver({ file: file() })
  await expect.poll(() => gaps).toBeGreaterThan(0)
})

describe('the age of the data', () => {
  const hourAgo = { clock: { now: () => performance.now(), wall: () => Date.now() - 3_600_000 } }

  async function ageOf(own: LockDriver): Promise<number> {
    return (await own.dataAgeMs?.()) ?? Number.NaN
  }

  test('counts from when the file was made, and from anew when it was deleted', async () => {
    const first = await driver({ file: file(), environment: hourAgo })
    expect(await ageOf(first)).toBeLessThan(60_000)
    const second = await driver({ file: file() })
    // As long as this machine has been up, at most.
    expect(await ageOf(second)).toBeGreaterThan(60_000)
    for (const own of [first, second]) await own.close()
    removeFile()
    expect(await ageOf(await driver({ file: file() }))).toBeLessThan(60_000)
  })

  test('counts from anew for a copy, whose claims have their full ttl from then on', async () => {
    const first = await driver({ file: file(), environment: hourAgo })
    const held = claimOf('a', { ttlMs: 60_000 })
    await claim(first, held)
    backUp()
    const old = openDatabase(file('backup.sqlite'))
    old.exec("update held set expires_at = expires_at - 50000 where key = 'a'")
    old.close()
    await first.close()
    const copy = await driver({ file: file('backup.sqlite') })
    expect(await ageOf(copy)).toBeLessThan(60_000)
    const { now, keys } = await copy.list({ key: 'a' })
    expect((keys[0]?.claims[0]?.expiresAt ?? 0) - now).toBeGreaterThan(30_000)
    expect(await renew(copy, held)).toMatchObject({ state: 'held' })
  })
})

describe('the directory of the inboxes', () => {
  test('is made again when it is deleted, and locks are handed over as before', async () => {
    const one = await driver({ file: file() })
    const other = await driver({ file: file() })
    const received: unknown[] = []
    other.listen?.((_key, _id, notification) => notification !== 'poll' && received.push(notification))
    // Each has the other's inbox open.
    for (let turn = 1; turn <= 2; turn += 1) {
      const held = claimOf('a')
      const waiting = claimOf('a')
      await claim(one, held)
      await claim(other, waiting)
      await release(one, held)
      expect(await eventually(() => received[turn - 1], 'the grant')).toMatchObject({ state: 'held' })
      await release(other, waiting)
      if (turn === 2) break
      rmSync(`${file()}.inboxes`, { recursive: true })
      await eventually(() => readBells().length === 2, 'the inboxes')
    }
  })

  const readBells = (): string[] => {
    try {
      return readdirSync(`${file()}.inboxes`)
    } catch {
      return []
    }
  }

  const strange: Readonly<Record<string, (directory: string) => void>> = {
    'is a link to elsewhere': (directory) => {
      mkdirSync(file('elsewhere'))
      symlinkSync(file('elsewhere'), directory)
    },
    'is a file': (directory) => writeFileSync(directory, ''),
    'is one to which everybody may write': (directory) => {
      mkdirSync(directory)
      chmodSync(directory, 0o777)
    },
  }
  test.each(Object.entries(strange))('is refused if it %s', async (_what, make) => {
    mkdirSync(path.dirname(file()), { recursive: true })
    make(`${file()}.inboxes`)
    const refused = sqlite({ file: file() })
    await expect(refused.open()).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'foreign' })
    await refused.close()
  })

  test.skipIf(process.getuid?.() !== 0)('is refused if another user made it, or a link to it', async () => {
    mkdirSync(path.dirname(file()), { recursive: true })
    const inboxes = `${file()}.inboxes`
    const refusal = {
      code: 'UNAVAILABLE',
      reason: 'foreign',
      message: expect.stringContaining('Delete it if you know'),
    }
    mkdirSync(inboxes, { mode: 0o700 })
    chownSync(inboxes, 65_534, 65_534)
    const refused = sqlite({ file: file() })
    await expect(refused.open()).rejects.toMatchObject(refusal)
    rmSync(inboxes, { recursive: true })
    mkdirSync(file('own'), { mode: 0o700 })
    symlinkSync(file('own'), inboxes)
    lchownSync(inboxes, 65_534, 65_534)
    await expect(refused.open()).rejects.toMatchObject(refusal)
    await refused.close()
  })
})

test.skipIf(process.getuid?.() !== 0)(
  'a link that another user made where everybody may write is not followed',
  async () => {
    const shared = file('shared')
    mkdirSync(shared, { recursive: true })
    chmodSync(shared, 0o1777)
    const link = path.join(shared, 'locks.sqlite')
    // An empty file would become a lock file.
    writeFileSync(file('victim'), '')
    symlinkSync(file('victim'), link)
    lchownSync(link, 65_534, 65_534)
    const refused = sqlite({ file: link })
    await expect(refused.open()).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'foreign' })
    await refused.close()
    expect(statSync(file('victim')).size).toBe(0)
    // Where only its maker may write, the link is the work of whoever set up the directory.
    chmodSync(shared, 0o755)
    const followed = await driver({ file: link })
    expect(await claim(followed, claimOf('a'))).toMatchObject({ state: 'held' })
  },
)

describe.skipIf(process.getuid?.() !== 0)('a log that another user made beside the file', () => {
  test.each(['-wal', '-shm', '-journal'])('is not used: %s', async (end) => {
    const shared = file(`planted${end}`)
    mkdirSync(shared, { recursive: true })
    chmodSync(shared, 0o1777)
    const locks = path.join(shared, 'locks.sqlite')
    writeFileSync(`${locks}${end}`, '')
    chmodSync(`${locks}${end}`, 0o666)
    chownSync(`${locks}${end}`, 65_534, 65_534)
    const refused = sqlite({ file: locks })
    await expect(refused.open()).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      reason: 'foreign',
      message: expect.stringContaining('was made by another user'),
    })
    await refused.close()
    expect(statSync(`${locks}${end}`).size).toBe(0)
  })

  test('is used if the owner of the file lets others write to it', async () => {
    const first = await driver({ file: file('of-a-group') })
    expect(await claim(first, claimOf('a'))).toMatchObject({ state: 'held' })
    chmodSync(file('of-a-group'), 0o666)
    chownSync(`${file('of-a-group')}-wal`, 65_534, 65_534)
    const followed = await driver({ file: file('of-a-group') })
    expect(await claim(followed, claimOf('b'))).toMatchObject({ state: 'held' })
  })
})
