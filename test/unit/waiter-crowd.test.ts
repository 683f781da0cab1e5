import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Claim } from '../../src/core/contract/driver.ts'
import { Play } from './admission/play.ts'
import { ComparedKeys, queueEvent } from './admission/queue-scripts.ts'
import { rounds } from '../support/extent.ts'

/** A request may read this many waiters, however many there are. */
const fewReads = 12

/** As many ranges, each held and each with a waiter. */
function contendedRanges(count: number): Play {
  const play = new Play()
  for (let index = 0; index < count; index += 1) {
    const range = rangeOf(index)
    play.claim(`holder ${index}`, { range })
    play.claim(`waiter ${index}`, { range })
  }
  return play
}

function rangeOf(index: number): NonNullable<Claim['range']> {
  return { start: index * 100, end: index * 100 + 50 }
}

describe('a crowd of waiters', () => {
  test('decides as the whole queue would, whatever happens', { timeout: 240_000 }, () => {
    let requests = 0
    let indexedRequests = 0
    const scripts = fc.array(queueEvent, { minLength: 100, maxLength: 300, size: 'max' })
    const comparison = fc.property(scripts, (events) => {
      const keys = new ComparedKeys()
      for (const event of events) {
        const difference = keys.play(event)
        if (difference !== undefined) throw new Error(difference)
      }
      requests += keys.requests
      indexedRequests += keys.indexedRequests
    })
    // A script of hundreds of events takes minutes to shrink.
    fc.assert(comparison, { numRuns: rounds(80, 200), interruptAfterTimeLimit: 200_000 })
    expect(requests).toBeGreaterThan(rounds(8000, 20_000))
    // On most of them, two keys searched among their waiters.
    expect(indexedRequests).toBeGreaterThan(requests)
  })

  test('is not read by requests about other ranges', () => {
    const play = contendedRanges(500)
    const range = rangeOf(250)
    const asked = [
      () => play.claim('late', { range }),
      () => play.renew('late'),
      () => play.release('late'),
      () => play.claim('no wait', { range, wait: false }),
      () => play.renew('waiter 100'),
      () => play.release('holder 250'),
      () => play.claim('whole key'),
      () => play.release('whole key'),
    ]
    for (const ask of asked) {
      ask()
      expect(play.waitersRead).toBeLessThan(fewReads)
    }
    expect(play.holding()).toContain('waiter 250')
  })

  test('that waits for one range is not read when the range is released', () => {
    const play = new Play()
    const range = rangeOf(0)
    for (let index = 0; index < 500; index += 1) play.claim(`${index}`, { range })
    play.release('0')
    expect(play.waitersRead).toBeLessThan(fewReads)
    expect(play.holding()).toEqual(['1'])
    // Readers who wait for the writer that is now first.
    for (let index = 0; index < 500; index += 1) play.claim(`reader ${index}`, { range, mode: 'shared' })
    play.release('1')
    expect(play.waitersRead).toBeLessThan(fewReads)
  })

  test('that waits for the whole key to be shared is not read when a range is released', () => {
    const play = contendedRanges(20)
    for (let index = 0; index < 500; index += 1) play.claim(`reader ${index}`, { mode: 'shared' })
    play.release('holder 7')
    expect(play.waitersRead).toBeLessThan(fewReads)
    play.renew('reader 400')
    expect(play.waitersRead).toBeLessThan(fewReads)
  })
})
