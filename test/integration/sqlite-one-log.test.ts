/** One lock file has one log, whatever names lead to it and however often a process opens it. */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, linkSync, mkdirSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { Worker } from 'node:worker_threads'
import { describe, expect, test } from 'vitest'
import { claim, claimOf, release } from '../support/claims.ts'
import { locksOn } from '../sqlite/posix-locks.ts'
import { scratch } from '../sqlite/scratch.ts'
import { eventually } from '../support/eventually.ts'

const { file, driver } = scratch()
const isLinux = process.platform === 'linux'

describe.runIf(isLinux)('a process keeps its locks on the file', () => {
  test('when it opens the file again under the name of a symbolic link', async () => {
    await driver({ file: file() })
    const locks = locksOn(file())
    expect(locks).toBeGreaterThan(0)
    symlinkSync(file(), file('link.sqlite'))
    await driver({ file: file('link.sqlite') })
    expect(locksOn(file())).toBe(locks)
  })

  test('when it opens the file again after the inboxes have been deleted', async () => {
    await driver({ file: file() })
    const locks = locksOn(file())
    rmSync(`${file()}.inboxes`, { recursive: true })
    await driver({ file: file() })
    expect(locksOn(file())).toBe(locks)
  })

  test('when its threads make the file at once', async () => {
    const code = `
      import { workerData, parentPort } from 'node:worker_threads'
      const { sqlite } = await import(workerData.module)
      const driver = sqlite({ file: workerData.file })
      const start = new Int32Array(workerData.start)
      parentPort.postMessage('ready')
      Atomics.wait(start, 0, 0)
      await driver.open()
      parentPort.once('message', () => driver.close())
      parentPort.postMessage('open')`
    const module = new URL('../../.build/src/drivers/sqlite/driver.js', import.meta.url).href
    for (let round = 0; round < 8; round += 1) {
      const made = file(`round-${round}.sqlite`)
      const start = new SharedArrayBuffer(4)
      const script = new URL(`data:text/javascript,${encodeURIComponent(code)}`)
      const threads = Array.from({ length: 3 }, () => new Worker(script, { workerData: { module, file: made, start } }))
      const said = (word: string) =>
        Promise.all(
          threads.map(
            (thread) =>
              new Promise<void>((resolve, reject) => {
                thread.on('message', (message) => message === word && resolve())
                thread.once('error', reject)
              }),
          ),
        )
      const open = said('open')
      await said('ready')
      new Int32Array(start)[0] = 1
      Atomics.notify(new Int32Array(start), 0)
      await open
      expect(locksOn(made)).toBeGreaterThan(0)
      expect(statSync(made).nlink).toBe(1)
      const ended = threads.map((thread) => new Promise((resolve) => thread.once('exit', resolve)))
      for (const thread of threads) thread.postMessage('close')
      await Promise.all(ended)
    }
    expect(readdirSync(path.dirname(file())).filter((name) => name.includes('.new-'))).toEqual([])
  })
})

test('under a symbolic link a lock is handed over at once, and nothing is made beside the link', async () => {
  const one = await driver({ file: file('real/locks.sqlite') })
  mkdirSync(file('linked'))
  symlinkSync(file('real/locks.sqlite'), file('linked/locks.sqlite'))
  const other = await driver({ file: file('linked/locks.sqlite') })
  expect(other.store).toBe(one.store)
  const received: unknown[] = []
  other.listen?.((_key, _id, notification) => received.push(notification))
  const held = claimOf('a')
  await claim(one, held)
  await claim(other, claimOf('a'))
  await release(one, held)
  expect(await eventually(() => received[0], 'the grant')).toMatchObject({ state: 'held' })
  expect(readdirSync(file('linked'))).toEqual(['locks.sqlite'])
})

describe('a file with two names is refused', () => {
  const refused = { code: 'UNAVAILABLE', reason: 'alias' }

  test('under either, while there is a hard link', async () => {
    await (await driver({ file: file() })).close()
    linkSync(file(), file('second.sqlite'))
    for (const name of [file(), file('second.sqlite')])
      await expect(driver({ file: name })).rejects.toMatchObject(refused)
    expect(existsSync(file('second.sqlite.inboxes'))).toBe(false)
    rmSync(file('second.sqlite'))
    expect(await claim(await driver({ file: file() }), claimOf('a'))).toMatchObject({ state: 'held' })
  })

  test('but not for what a process left that was killed while it made the file', async () => {
    writeFileSync(file(), '')
    linkSync(file(), `${file()}.new-0123456789abcdef`)
    expect(await claim(await driver({ file: file() }), claimOf('a'))).toMatchObject({ state: 'held' })
    expect(statSync(file()).nlink).toBe(1)
  })

  test('where it is mounted by itself, as a container may have it', async ({ skip }) => {
    await (await driver({ file: file('host files/locks.sqlite') })).close()
    writeFileSync(file('mounted file.sqlite'), '')
    try {
      execFileSync('unshare', ['-m', 'true'], { stdio: 'ignore' })
    } catch {
      skip('mounting needs root')
    }
    const script = 'mount --bind "$1" "$2" && exec "$3" .build/test/children/sqlite-storm.js "$2" 1'
    const names = [file('host files/locks.sqlite'), file('mounted file.sqlite'), process.execPath]
    const child = spawnSync('unshare', ['-m', 'sh', '-c', script, 'sh', ...names], { encoding: 'utf8' })
    expect(child.status).toBe(1)
    expect(child.stderr).toContain("reason: 'alias'")
    expect(child.stderr).toContain('Mount the directory')
  })
})
