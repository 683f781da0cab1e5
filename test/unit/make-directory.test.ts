import { statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { makeDirectory } from '../../src/core/machine/directories.ts'
import { makeFolder, removeFolder } from '../support/scratch-folder.ts'

test('a directory is made with those above it, for this user alone, and once', () => {
  const folder = makeFolder('directory')
  try {
    const deep = join(folder, 'a/b/c')
    makeDirectory(deep)
    makeDirectory(deep)
    expect(statSync(deep).mode & 0o777).toBe(0o700)
    writeFileSync(join(folder, 'file'), '')
    expect(() => makeDirectory(join(folder, 'file/below'))).toThrow(/ENOTDIR/)
  } finally {
    removeFolder(folder)
  }
})

test.runIf(process.platform === 'linux')('a place where nothing can be made is told, and not tried for ever', () => {
  expect(() => makeDirectory('/proc/leasehold/locks')).toThrow(/ENOENT/)
})
