import { existsSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { connect } from '../../src/index.ts'
import { cliBench } from './support/cli-bench.ts'
import { folderForTest } from '../support/test-folder.ts'

let folder: string
beforeEach(() => {
  folder = folderForTest('stores')
  vi.stubEnv('LEASEHOLD_STATE_DIR', path.join(folder, 'state'))
})
afterEach(() => {
  vi.unstubAllEnvs()
})

/** What each command says where nobody else can see its locks, or where there are none. */
const commands: readonly (readonly string[])[] = [
  ['run', 'a', '--', 'true'],
  ['elect', 'a', '--', 'true'],
  ['acquire', 'a', '--ttl', '1m', '--proof', 'no-such-directory/proof'],
  ['ls'],
  ['explain', 'a'],
  ['watch', 'a'],
  ['evict', 'a', '--reason', 'x', '--yes'],
  ['doctor'],
]
const looking = commands.slice(3)

/** The command line with a store of its own. */
function withStore(words: readonly string[], store: string): string[] {
  return [...words.slice(0, 1), '--store', store, ...words.slice(1)]
}

describe('a store in the memory of a process', () => {
  test.each(commands)('is refused by %s: nobody else would see the lock', async (...words) => {
    const { leasehold, shown } = cliBench()
    for (const store of ['memory:', 'memory:name', 'quorum:memory:a,memory:b,memory:c']) {
      expect(await leasehold(...withStore(words, store))).toBe(64)
      expect(shown.errors).toContain('in the memory of one process')
      shown.errors = ''
    }
    expect(shown.output).toBe('')
  })
})

describe('a file that does not exist', () => {
  test.each(looking)('is not made by %s, which says that there is none', async (...words) => {
    const { leasehold, shown } = cliBench()
    const file = path.join(folder, 'no', 'typo.sqlite')
    expect(await leasehold(...withStore(words, `sqlite:${file}`))).toBe(69)
    expect(shown.output + shown.errors).toContain(`There is no lock file ${file}`)
    expect(readdirSync(folder)).toEqual([])
  })

  test('is an empty store if it is the one for those who name none', async () => {
    const { leasehold, shown } = cliBench()
    expect(await leasehold('ls', '--store', 'sqlite:')).toBe(0)
    expect(await leasehold('explain', 'a', '--store', 'sqlite:')).toBe(0)
    expect(await leasehold('evict', 'a', '--reason', 'x', '--yes', '--store', 'sqlite:')).toBe(1)
    expect(shown.output).toBe('a is free: nobody holds it and nobody waits.\n')
    expect(shown.errors).toContain('nobody holds or waits for a lock')
    expect(shown.errors).toContain('nobody holds "a"')
    expect(readdirSync(folder)).toEqual([])
  })

  test('is watched until somebody makes it', async () => {
    const { leasehold, shown } = cliBench()
    const watching = leasehold('watch', 'a', '--store', 'sqlite:')
    await expect.poll(() => shown.output).toMatch(/^\S+ a: free\n$/)
    expect(readdirSync(folder)).toEqual([])
    await using locks = await connect('sqlite:')
    const { fence } = await locks.acquire('a')
    await expect.poll(() => shown.output, { timeout: 10_000 }).toContain(`with fence ${fence}\n`)
    process.emit('SIGTERM', 'SIGTERM')
    expect(await watching).toBe(143)
  })

  test('is made by doctor, which says so, only where locks are taken anyway', async () => {
    const { leasehold, shown } = cliBench()
    expect(await leasehold('doctor', '--store', 'sqlite:')).toBe(0)
    expect(shown.errors).toContain('creating its file')
    expect(existsSync(path.join(folder, 'state', 'locks.sqlite'))).toBe(true)
  })
})

describe('the URL of an SQLite store', () => {
  test.each([
    ['sqlite://tmp/x.sqlite', 'Write sqlite:/tmp/x.sqlite for a path from the root, sqlite:tmp/x.sqlite'],
    ['sqlite:///tmp/x.sqlite', 'Write sqlite:/tmp/x.sqlite for a path from the root, sqlite:tmp/x.sqlite'],
    ['sqlite:x.sqlite?mode=ro', 'takes no parameters. Write sqlite:x.sqlite'],
    ['sqlite:x.sqlite\n', 'has a line break in it, or a space at its end'],
    ['sqlite:x.sqlite ', 'has a line break in it, or a space at its end'],
    ['memory:\n', 'has a line break in it, or a space at its end'],
  ])('is not %s', async (url, message) => {
    const { leasehold, shown } = cliBench()
    expect(await leasehold('ls', '--store', url)).toBe(64)
    expect(await leasehold('run', 'a', '--store', url, '--', 'true')).toBe(64)
    expect(shown.errors).toContain(message)
    await expect(connect(url)).rejects.toMatchObject({ code: 'INVALID' })
    expect(existsSync('x.sqlite?mode=ro')).toBe(false)
  })
})
