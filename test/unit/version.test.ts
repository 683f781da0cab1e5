import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { version } from '../../src/index.ts'

test('the package says the version it is published as', () => {
  const manifest = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string }
  expect(version).toBe(manifest.version)
})
