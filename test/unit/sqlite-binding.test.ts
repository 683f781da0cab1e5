import { existsSync } from 'node:fs'
import path from 'node:path'
import { afterEach, expect, test, vi } from 'vitest'
import { systemSurroundings } from '../../src/drivers/sqlite/surroundings.ts'
import { scratch } from '../sqlite/scratch.ts'

const { file, driver } = scratch()
afterEach(() => void vi.restoreAllMocks())

test('without a binding no file is made, and no directory', async () => {
  vi.spyOn(process as { getBuiltinModule: (name: string) => unknown }, 'getBuiltinModule').mockReturnValue(undefined)
  const missing = file('new/locks.sqlite')
  const surroundings = { ...systemSurroundings(), binding: 'node:sqlite' as const }
  await expect(driver({ file: missing, surroundings })).rejects.toMatchObject({
    code: 'UNAVAILABLE',
    reason: 'configuration',
  })
  expect(existsSync(path.dirname(missing))).toBe(false)
})
