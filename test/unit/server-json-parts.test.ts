import { expect, test } from 'vitest'
import { hasMoreParts } from '../../src/server/http/json-parts.ts'

const bytes = (text: string): Uint8Array => Buffer.from(text)

test.each([
  ['a list', JSON.stringify(Array.from({ length: 100 }, () => 1000)), 100],
  ['an object', JSON.stringify(Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`name ${index}`, 1]))), 50],
  ['lists in lists', `${'['.repeat(100)}${']'.repeat(300)}`, 100],
  ['text with commas and brackets', JSON.stringify([',[{"\\'.repeat(200), '\\', '"', ',,,']), 4],
])('the parts of %s are counted', (_, json, parts) => {
  expect(hasMoreParts(bytes(json), parts)).toBe(false)
  expect(hasMoreParts(bytes(json), parts - 1)).toBe(true)
})

test('text that is no JSON is read to its end and no further', () => {
  expect(hasMoreParts(bytes(`${'x'.repeat(100)}"\\`), 1)).toBe(false)
  expect(hasMoreParts(bytes(','.repeat(100)), 10)).toBe(true)
})
