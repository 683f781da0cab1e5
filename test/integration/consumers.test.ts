/** The quick rows of scripts/test-consumers.mjs, which has more. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { isLong } from '../support/extent.ts'

test.each([
  ['esbuild', 'installs beside clients and tools that do not fit, and runs out of a bundle, ESM or CommonJS'],
  ['require', 'has one of everything in a process that imports and requires it'],
  ...(isLong ? [['jest', 'runs in Jest, finds clients there and says which are missing']] : []),
])('%s: the tarball %s', async (row) => {
  const { stdout } = await promisify(execFile)(process.execPath, ['scripts/test-consumers.mjs', row]).catch(
    ({ stdout: printed, stderr }: { readonly stdout: string; readonly stderr: string }) => ({
      stdout: printed + stderr,
    }),
  )
  expect(stdout).toMatch(new RegExp(`^ok {5}${row}`))
})
