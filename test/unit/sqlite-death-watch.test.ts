import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { newStamp, stampText } from '../../src/core/machine/liveness.ts'
import { DeathWatch } from '../../src/drivers/sqlite/death-watch.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const holder = stampText(newStamp('boot-1', { namespace: '1', pid: 20, started: 300 }))

/** A watch over one holder, which is alive until `dead` is set, and whatever it reported. */
function setUp() {
  const stage = { dead: false, checks: 0, reports: [] as string[] }
  const watch = new DeathWatch({
    version: () => 'nobody else has written',
    stampsOf: () => [holder],
    isGone() {
      stage.checks += 1
      return stage.dead
    },
    onDeath: (key, id) => void stage.reports.push(`${key} ${id}`),
  })
  return { stage, watch }
}

test('a waiting claim polls at the next check after a process in front of it died', () => {
  const { stage, watch } = setUp()
  watch.add('x', 'one')
  vi.advanceTimersByTime(100)
  expect(stage.reports).toEqual([])
  stage.dead = true
  vi.advanceTimersByTime(50)
  expect(stage.reports).toEqual(['x one'])
  watch.close()
})

test('no process is checked, and no timer runs, once no claim waits', () => {
  const { stage, watch } = setUp()
  watch.add('x', 'one')
  vi.advanceTimersByTime(100)
  watch.delete('x', 'one')
  const { checks } = stage
  expect(checks).toBeGreaterThan(0)
  vi.advanceTimersByTime(100)
  expect(stage.checks).toBe(checks)
  expect(vi.getTimerCount()).toBe(0)
})

test('a claim that waits again is watched again, before and after the checks have stopped', () => {
  for (const pausedMs of [0, 1000]) {
    const { stage, watch } = setUp()
    watch.add('x', 'one')
    vi.advanceTimersByTime(100)
    watch.delete('x', 'one')
    vi.advanceTimersByTime(pausedMs)
    watch.add('x', 'two')
    stage.dead = true
    vi.advanceTimersByTime(50)
    expect(stage.reports).toEqual(['x two'])
    watch.close()
  }
})

test('what was reported is forgotten in time, however many keys the dead held', () => {
  const { stage, watch } = setUp()
  stage.dead = true
  for (let round = 0; round < 30; round += 1) {
    for (let key = 0; key < 100; key += 1) watch.add(`key-${round}-${key}`, 'one')
    vi.advanceTimersByTime(100)
    // A claim always waits, so that the checks go on.
    for (let key = 1; key < 100; key += 1) watch.delete(`key-${round}-${key}`, 'one')
  }
  expect(new Set(stage.reports).size).toBe(3000)
  expect(watch.remembered).toBeLessThanOrEqual(1000)
})
