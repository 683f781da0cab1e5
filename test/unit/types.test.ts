import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

test.each([
  ['options, doubles, guards and drivers take what users write', 'test/types'],
  ['the lock manager has the type of navigator.locks', 'test/types/dom'],
])('%s', async (_fact, project) => {
  const output = await new Promise<string>((resolve) => {
    const args = ['node_modules/typescript/bin/tsc', '-p', project, '--pretty', 'false']
    execFile(process.execPath, args, { timeout: 25_000 }, (error, stdout, stderr) =>
      resolve(stdout + stderr + (error?.killed === true ? 'tsc took too long' : '')),
    )
  })
  expect(output).toBe('')
})

test('the package needs no DOM types', () => {
  expect(readFileSync('tsconfig.json', 'utf8')).not.toMatch(/"DOM/i)
})
