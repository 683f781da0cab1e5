import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { newStamp, stampText } from '../../src/core/machine/liveness.ts'
import { DeathWatch } from '../../src/drivers/sqlite/death-watch.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const holder = stampText(newStamp('boot-1', { namespace: '1', pid: 20, started: 300 }))

/** A watch over one holder, which is alive until `dead` is set, and whatever it reported. */
function setUp() {
  const stage = { dead: false, looks: 0, reports: [] as string[] }
  const watch = new DeathWatch({
    version: () => 'nobody else has written',
    stampsOf: () => [holder],
    isGone() {
      stage.looks += 1
      return stage.dead
    },
    died: (key, id) => void stage.reports.push(`${key} ${id}`),
  })
  return { stage, watch }
}

test('whoever waits is told of a death in front of it at the next look', () => {
  const { stage, watch } = setUp()
  watch.add('x', 'one')
  vi.advanceTimersByTime(100)
  expect(stage.reports).toEqual([])
  stage.dead = true
  vi.advanceTimersByTime(50)
  expect(stage.reports).toEqual(['x one'])
  watch.close()
})

test('nobody is looked at, and no timer runs, once nobody waits', () => {
  const { stage, watch } = setUp()
  watch.add('x', 'one')
  vi.advanceTimersByTime(100)
  watch.delete('x', 'one')
  const { looks } = stage
  expect(looks).toBeGreaterThan(0)
  vi.advanceTimersByTime(100)
  expect(stage.looks).toBe(looks)
  expect(vi.getTimerCount()).toBe(0)
})

test('who waits again is looked after again, before and after the looking has stopped', () => {
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
    // Somebody always waits, so that the looking goes on.
    for (let key = 1; key < 100; key += 1) watch.delete(`key-${round}-${key}`, 'one')
  }
  expect(new Set(stage.reports).size).toBe(3000)
  expect(watch.remembered).toBeLessThanOrEqual(1000)
})
