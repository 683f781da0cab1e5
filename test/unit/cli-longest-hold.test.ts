import { expect, test } from 'vitest'
import { isLongestHold } from '../../src/cli/supervise/lease-watch.ts'

const ttlMs = 30_000
const hourMs = 3_600_000

test('a lease that is renewed in full ends at no longest hold', () => {
  expect(isLongestHold({ heldMs: 60_000, remainingMs: 28_000 }, ttlMs, undefined)).toBe(false)
  expect(isLongestHold({ heldMs: 60_000, remainingMs: 28_000 }, ttlMs, hourMs)).toBe(false)
})

test('a lease that could not be renewed near its longest hold was not held for that long', () => {
  expect(isLongestHold({ heldMs: hourMs - 60_000, remainingMs: 6000 }, ttlMs, hourMs)).toBe(false)
})

test('a lease that was renewed for what is left of its longest hold ends there', () => {
  expect(isLongestHold({ heldMs: hourMs - 10_000, remainingMs: 9400 }, ttlMs, hourMs)).toBe(true)
})

test('a longest hold below the ttl is what ends the lease from the beginning', () => {
  expect(isLongestHold({ heldMs: 0, remainingMs: 1890 }, ttlMs, 2000)).toBe(true)
  expect(isLongestHold({ heldMs: 1500, remainingMs: 390 }, ttlMs, 2000)).toBe(true)
})
