import { describe, expect, test } from 'vitest'
import { RateBudget } from '../../src/drivers/github/api/rate-budget.ts'
import { ServerClock } from '../../src/drivers/github/api/github-api.ts'
import { limitedForMs } from '../../src/drivers/github/api/faults.ts'

const hour = 3_600_000

describe('the pace', () => {
  const after = (share: number, remaining: number): RateBudget => {
    const rateBudget = new RateBudget(30_000)
    rateBudget.note(5000, remaining, hour, share * hour, 0)
    return rateBudget
  }

  test('is free while requests are used no faster than the hour passes', () => {
    expect(after(0, 5000).isPressed(0)).toBe(false)
    expect(after(0.5, 2600).isPressed(0)).toBe(false)
    expect(after(0.5, 2600).editEveryMs(0, 300_000, 1)).toBe(0)
  })

  test('is pressed when they are, and heartbeats stretch to two fifths of the lease', () => {
    const rateBudget = after(0.5, 2300)
    expect(rateBudget.isPressed(0)).toBe(true)
    expect(rateBudget.editEveryMs(0, 300_000, 1)).toBe(119_000)
    expect(rateBudget.readEveryMs(0, 300_000)).toBe(60_000)
  })

  test('keeps something for the end of the hour, and is free again after it', () => {
    expect(after(0.99, 240).isPressed(0)).toBe(true)
    expect(after(0.99, 240).isPressed(hour)).toBe(false)
  })

  test('is slow for a while after GitHub complained', () => {
    const rateBudget = after(0, 5000)
    rateBudget.limited(0)
    expect(rateBudget.isPressed(599_000)).toBe(true)
    expect(rateBudget.isPressed(600_000)).toBe(false)
  })

  test('is slower for each claim of a process that has many', () => {
    expect(after(0, 5000).editEveryMs(0, 300_000, 12)).toBe(0)
    expect(after(0, 5000).editEveryMs(0, 300_000, 20)).toBe(50_000)
    expect(after(0, 5000).editEveryMs(0, 300_000, 500)).toBe(119_000)
  })
})

test("GitHub's clock has reached what its last answer said, and the time since", () => {
  const clock = new ServerClock()
  expect(clock.earliest(5)).toBe(-Infinity)
  clock.note(10_000, 100)
  expect(clock.earliest(350)).toBe(10_250)
  // Another machine's clock, a little behind: the last word counts.
  clock.note(9000, 200)
  expect(clock.earliest(300)).toBe(9100)
})

describe('how long GitHub wants to hear nothing', () => {
  const refusal = (status: number, headers: object, message = ''): Error =>
    Object.assign(new Error(message), { status, response: { status, headers } })

  test('is said by Retry-After, by the reset of the window, or is a minute', () => {
    expect(limitedForMs(refusal(403, { 'retry-after': '20' }), 0)).toBe(20_000)
    expect(limitedForMs(refusal(403, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '90' }), 60_000)).toBe(31_000)
    expect(limitedForMs(refusal(429, {}), 0)).toBe(60_000)
    expect(limitedForMs(refusal(403, {}, 'You have exceeded a secondary rate limit.'), 0)).toBe(60_000)
  })

  test('is nothing for other refusals', () => {
    expect(limitedForMs(refusal(403, {}, 'Resource not accessible'), 0)).toBeUndefined()
    expect(limitedForMs(refusal(500, { 'retry-after': '20' }), 0)).toBeUndefined()
    expect(limitedForMs(new Error('socket hang up'), 0)).toBeUndefined()
  })
})
