import { describe, expect, test } from 'vitest'
import { trustedUntil } from '../../src/core/deadline.ts'
import { sleepProofClock, systemEnvironment } from '../../src/core/environment.ts'

describe('the clock', () => {
  test('counts the time a machine was asleep, which the monotonic clock does not', () => {
    let awake = 1000
    let up = 5000
    const now = sleepProofClock(
      () => awake,
      () => up,
      4000,
    )
    const before = now()
    awake += 100
    up += 100 + 60_000
    expect(now() - before).toBe(60_100)
  })

  test('never goes back, whatever the uptime says', () => {
    let awake = 1000
    let up = 5000
    const now = sleepProofClock(
      () => awake,
      () => up,
      4000,
    )
    awake += 100
    up += 1100
    const slept = now()
    awake += 10
    up -= 3000
    expect(now()).toBe(slept + 10)
  })

  test('is the same for two that start from the same lead', () => {
    const one = systemEnvironment()
    const other = systemEnvironment()
    expect(Math.abs(one.now() - other.now())).toBeLessThan(50)
  })
})

describe('the deadline', () => {
  test('counts from before the request was sent, less five in a hundred', () => {
    expect(trustedUntil(1000, 30_000)).toBe(1000 + 30_000 - 1500 - 2)
  })

  test('is a whole millisecond, and never a later one for being rounded', () => {
    expect(trustedUntil(1000.9, 30_000)).toBe(1000 + 30_000 - 1500 - 2)
    expect(trustedUntil(1000, 10_010)).toBe(Math.floor(1000 + 10_010 - 500.5 - 2))
  })

  test('leaves something of the shortest lease', () => {
    expect(trustedUntil(1000, 2)).toBe(1001)
  })
})

test('ids are unguessable and never repeat', () => {
  const environment = systemEnvironment()
  const ids = Array.from({ length: 2000 }, () => environment.id())
  expect(new Set(ids).size).toBe(2000)
  expect(ids.every((one) => /^[0-9a-f]{32}$/.test(one))).toBe(true)
})
