import { describe, expect, test } from 'vitest'
import { fenceFloor, mayForget, nextFence } from '../../src/core/rule/fence.ts'

describe('a fence', () => {
  test('is one more than the last, and at least the floor', () => {
    expect(nextFence(41, 0)).toBe(42)
    expect(nextFence(41, 1000)).toBe(1000)
    expect(nextFence(0, fenceFloor(1_700_000_000_000))).toBe(1_700_000_000_000_000)
  })

  test('beyond 2^53 is refused rather than rounded', () => {
    expect(nextFence(Number.MAX_SAFE_INTEGER - 1, 0)).toBe(Number.MAX_SAFE_INTEGER)
    expect(() => nextFence(Number.MAX_SAFE_INTEGER, 0)).toThrow(/INVALID: .*beyond 2\^53/)
  })

  test('may be forgotten once the clock is an hour past it, so that no clock in milliseconds can mint it again', () => {
    const minted = fenceFloor(1_700_000_000_000) + 5
    expect(mayForget(minted, 1_700_000_000_000 + 3_600_000)).toBe(false)
    expect(mayForget(minted, 1_700_000_000_000 + 3_600_001)).toBe(true)
    expect(nextFence(0, fenceFloor(1_700_000_000_000 + 3_600_001))).toBeGreaterThan(minted)
  })
})
