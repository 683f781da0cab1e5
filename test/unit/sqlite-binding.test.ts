import { existsSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { afterEach, expect, test, vi } from 'vitest'
import { systemSqliteEnvironment } from '../../src/drivers/sqlite/sqlite-environment.ts'
import { scratch } from '../sqlite/scratch.ts'

const { file, driver } = scratch()
afterEach(() => void vi.restoreAllMocks())

test('without a binding no file is made, and no directory', async () => {
  vi.spyOn(process as { getBuiltinModule: (name: string) => unknown }, 'getBuiltinModule').mockReturnValue(undefined)
  const missing = file('new/locks.sqlite')
  const environment = { ...systemSqliteEnvironment(), binding: 'node:sqlite' as const }
  await expect(driver({ file: missing, environment })).rejects.toMatchObject({
    code: 'UNAVAILABLE',
    reason: 'configuration',
  })
  expect(existsSync(path.dirname(missing))).toBe(false)
})

test.runIf(process.platform === 'linux')('a closed driver leaves no descriptor open, or few for a while', async () => {
  const open = () => readdirSync('/proc/self/fd').length
  await (await driver({ file: file() })).close()
  const before = open()
  for (let round = 0; round < 150; round += 1) await (await driver({ file: file() })).close()
  // Where a package is bound, the garbage collector closes two for each, after 64 at the latest.
  expect(open() - before).toBeLessThan(process.getBuiltinModule?.('node:sqlite') === undefined ? 140 : 10)
})
