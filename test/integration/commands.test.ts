import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'

test('the built command starts by itself', () => {
  expect(execFileSync('dist/cli/main.js', ['--version'], { encoding: 'utf8' })).toMatch(/^\d+\.\d+\.\d+\n$/)
})
