import { expect } from 'vitest'
import type { Story } from './scenario.ts'

/** Checks a story: the same facts wherever it was played. */
export function expectStory(story: Story): void {
  expect(story).toMatchObject({
    runner: { host: 'unknown', pid: 0 },
    whileHeld: null,
    waiters: 1,
    evicted: { code: 'LOST', reason: 'evicted: the test says so', held: false },
    expired: { code: 'LOST', reason: 'expired', held: false },
    small: { others: null, released: { released: true } },
    refusals: {
      wrongToken: 'UNAVAILABLE auth',
      convert: 'NOT_HELD',
      ca: 'UNSUPPORTED',
      timeout: 'TIMEOUT',
    },
    isEmptied: true,
  })
  expect(story.renewals).toBeGreaterThan(0)
  expect(story.fences).toEqual([...new Set(story.fences)].toSorted((a, b) => a - b))
}
