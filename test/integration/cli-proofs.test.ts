import { existsSync } from 'node:fs'
import path from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { describeStore } from '../../src/cli/stores/store.ts'
import { connect } from '../../src/index.ts'
import { cliBench } from '../unit/support/cli-bench.ts'
import { folderForTest } from '../support/test-folder.ts'

const disk = vi.hoisted(() => ({ isFull: false }))

vi.mock('node:fs', async (original) => {
  const fs = await original<typeof import('node:fs')>()
  const write: typeof fs.writeFileSync = (file, text, options) => {
    if (!disk.isFull) return fs.writeFileSync(file, text, options)
    // What a full disk does: there is a file, and nothing in it.
    fs.writeFileSync(file, '', options)
    throw Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' })
  }
  return { ...fs, writeFileSync: write }
})

test('a store is shown to people without the secrets of its URL', () => {
  expect(describeStore('https://to@ken@host/path?key=secret')).toBe('https://***@host/path?key=***')
  expect(describeStore('quorum:http://a@one,http://b@two')).toBe('quorum:http://***@one,http://***@two')
})

test('the store that nobody named is shown to people with its file', () => {
  vi.stubEnv('LEASEHOLD_STATE_DIR', '/state')
  onTestFinished(() => void vi.unstubAllEnvs())
  expect(describeStore('sqlite:')).toBe('sqlite:/state/locks.sqlite')
})

test('a proof that does not fit on the disk leaves neither a file nor a lock', async () => {
  const folder = folderForTest('proof')
  const file = path.join(folder, 'proof')
  const { store, leasehold, shown } = cliBench()
  await using locks = await connect(store)
  disk.isFull = true
  expect(await leasehold('acquire', 'a', '--ttl', '10m', '--proof', file)).toBe(74)
  disk.isFull = false
  expect(shown.errors).toContain('The proof could not be written: ENOSPC: no space left')
  expect(existsSync(file)).toBe(false)
  expect(await locks.inspect('a')).toBeNull()
})
