import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { isSuperseded, memoryGuard, rangeGuard } from '../../src/guards/index.ts'
import { seededRandom } from '../../src/testing/random.ts'
import { isSettled } from './support/bench-of-locks.ts'
import { deferred } from '../support/deferred.ts'

const superseded = expect.objectContaining({ code: 'LOST', reason: 'superseded' }) as Error

describe('a memory guard', () => {
  test('lets the same holder write many times and refuses the one it replaced', () => {
    const guard = memoryGuard()
    guard.check('a', 5)
    guard.check('a', 5)
    guard.check('a', 7)
    expect(() => guard.check('a', 6)).toThrow(superseded)
    guard.check('a', 7)
  })

  test('a fence that was raised before a read keeps earlier holders out, once none of them is writing', async () => {
    const guard = memoryGuard()
    let finish = (): void => {}
    const steps: string[] = []
    const writing = guard.write('a', 5, async () => {
      await new Promise<void>((resolve) => (finish = resolve))
      steps.push('written')
    })
    const raising = guard.raise('a', 7).then(() => steps.push('raised'))
    await turnOfTheLoop()
    finish()
    await Promise.all([writing, raising])
    expect(steps).toEqual(['written', 'raised'])
    await expect(guard.raise('a', 6)).rejects.toThrow(superseded)
    expect(() => guard.check('a', 5)).toThrow(superseded)
    guard.check('a', 7)
  })

  test('says in its error what was refused and what was seen', () => {
    const guard = memoryGuard()
    guard.check('orders/42', 118)
    expect(() => guard.check('orders/42', 117)).toThrow(
      'LOST: Fence 117 may not write "orders/42": fence 118 has been seen. Stop writing.',
    )
  })

  test('keeps resources apart, and can forget one', () => {
    const guard = memoryGuard()
    guard.check('a', 9)
    guard.check('b', 1)
    guard.forget('a')
    guard.check('a', 1)
  })

  test.each([0, -1, 1.5, Number.NaN, 2 ** 53, '7' as unknown as number])('refuses %s, which is no fence', (fence) => {
    expect(() => memoryGuard().check('a', fence)).toThrow(expect.objectContaining({ code: 'INVALID' }) as Error)
  })

  test('runs the writes of one resource one after another', async () => {
    const guard = memoryGuard()
    const order: string[] = []
    const { promise: slow, resolve: finish } = deferred()
    const old = guard.write('a', 1, async () => {
      order.push('old begins')
      await slow
      order.push('old ends')
    })
    const later = guard.write('a', 2, () => void order.push('new'))
    const elsewhere = guard.write('b', 1, () => void order.push('elsewhere'))
    await elsewhere
    expect(await isSettled(later)).toBe(false)
    finish()
    await Promise.all([old, later])
    expect(order).toEqual(['old begins', 'elsewhere', 'old ends', 'new'])
  })

  test('judges a write that waited when its turn comes, not when it arrived', async () => {
    const guard = memoryGuard()
    const first = guard.write('a', 1, async () => guard.check('a', 3))
    const second = guard.write('a', 2, () => 'written')
    await first
    const error = await second.catch((reason: unknown) => reason)
    expect(isSuperseded(error)).toBe(true)
  })

  test('goes on after a write that failed, and gives its error to its caller alone', async () => {
    const guard = memoryGuard()
    const failed = guard.write('a', 1, () => Promise.reject(new Error('disk full')))
    const next = guard.write('a', 1, () => 'written')
    await expect(failed).rejects.toThrow('disk full')
    expect(await next).toBe('written')
  })
})

describe('a range guard', () => {
  test('lets holders of ranges that do not overlap write in any order', () => {
    const guard = rangeGuard()
    guard.check('inode 7', { start: 10, end: 20 }, 6)
    guard.check('inode 7', { start: 0, end: 10 }, 5)
    guard.check('inode 7', { start: 20, end: 30 }, 4)
  })

  test('a fence that was raised on a range keeps earlier holders out of it alone', () => {
    const guard = rangeGuard()
    guard.raise('a', { start: 0, end: 10 }, 7)
    expect(() => guard.check('a', { start: 9, end: 12 }, 5)).toThrow(superseded)
    guard.check('a', { start: 10, end: 12 }, 5)
  })

  test('refuses a lower fence on any byte that a higher one has written', () => {
    const guard = rangeGuard()
    guard.check('inode 7', { start: 10, end: 20 }, 6)
    for (const range of [
      { start: 0, end: 11 },
      { start: 19, end: 30 },
      { start: 12, end: 13 },
      { start: 0, end: 100 },
    ]) {
      expect(() => guard.check('inode 7', range, 5)).toThrow(superseded)
    }
  })

  test('remembers what is left of a stretch that was written over in part', () => {
    const guard = rangeGuard()
    guard.check('a', { start: 0, end: 30 }, 5)
    guard.check('a', { start: 10, end: 20 }, 8)
    expect(() => guard.check('a', { start: 0, end: 10 }, 4)).toThrow(superseded)
    expect(() => guard.check('a', { start: 20, end: 30 }, 4)).toThrow(superseded)
    expect(() => guard.check('a', { start: 10, end: 20 }, 7)).toThrow(superseded)
    guard.check('a', { start: 0, end: 10 }, 5)
    guard.check('a', { start: 20, end: 30 }, 6)
  })

  test('remembers the highest fence of each byte, whatever is written in whatever order', () => {
    const random = seededRandom(7)
    const upTo = (most: number): number => Math.floor(random() * most)
    for (let round = 0; round < 50; round += 1) {
      const guard = rangeGuard()
      const bytes = Array.from({ length: 20 }, () => 0)
      for (let writes = 0; writes < 60; writes += 1) {
        const start = upTo(20)
        const range = { start, end: start + 1 + upTo(20 - start) }
        const fence = 1 + upTo(4 + writes / 8)
        const mayWrite = fence >= Math.max(...bytes.slice(range.start, range.end))
        const write = (): void => guard.check('a', range, fence)
        if (mayWrite) write()
        else expect(write).toThrow('may not write')
        if (mayWrite) bytes.fill(fence, range.start, range.end)
      }
    }
  })

  test('takes no longer for a write the more have been before it', () => {
    const guard = rangeGuard()
    const startedAt = performance.now()
    for (let start = 0; start < 40_000; start += 1) guard.check('a', { start, end: start + 1 }, 5)
    for (let start = 0; start < 40_000; start += 1) guard.check('a', { start, end: start + 1 }, 6 + (start % 2))
    expect(performance.now() - startedAt).toBeLessThan(5000)
    expect(() => guard.check('a', { start: 0, end: 40_000 }, 6)).toThrow('fence 7 has been seen')
    guard.check('a', { start: 0, end: 40_000 }, 7)
  })

  test('a refused write leaves no trace', () => {
    const guard = rangeGuard()
    guard.check('a', { start: 5, end: 6 }, 9)
    expect(() => guard.check('a', { start: 0, end: 10 }, 8)).toThrow(superseded)
    guard.check('a', { start: 0, end: 5 }, 1)
  })

  test.each([
    [5, 5],
    [6, 5],
    [-1, 5],
    [0, 1.5],
  ])('refuses the range %d to %d, which has no bytes', (start, end) => {
    expect(() => rangeGuard().check('a', { start, end }, 1)).toThrow(
      expect.objectContaining({ code: 'INVALID' }) as Error,
    )
  })
})
