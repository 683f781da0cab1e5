/** The first row of scripts/test-consumers.mjs, which has more. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

test('the tarball installs beside clients and tools that do not fit, and runs out of a bundle, ESM or CommonJS', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['scripts/test-consumers.mjs', 'esbuild']).catch(
    ({ stdout: printed, stderr }: { readonly stdout: string; readonly stderr: string }) => ({
      stdout: printed + stderr,
    }),
  )
  expect(stdout).toMatch(/^ok {5}esbuild/)
})
