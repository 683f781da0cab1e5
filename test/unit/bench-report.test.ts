import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { interleave, median, percentile, report, type Bar } from '../../bench/report.ts'

describe('a report', () => {
  let lines: string[] = []
  beforeEach(() => {
    lines = []
    vi.spyOn(console, 'log').mockImplementation((line: string) => void lines.push(line))
  })
  afterEach(() => {
    vi.restoreAllMocks()
    process.exitCode = undefined
  })

  test('ends with a line that parses', () => {
    report({ name: 'grant', figures: { grantP99Ms: 3 }, bars: { speedup: { actual: 5, atLeast: 4 } } })
    expect(lines.at(-1)).toBe(
      '\nRESULT {"name":"grant","ok":true,"figures":{"grantP99Ms":3},"bars":{"speedup":{"actual":5,"atLeast":4,"ok":true}}}',
    )
    expect(process.exitCode).toBe(0)
  })

  test.each<Bar>([
    { actual: 3.9, atLeast: 4 },
    { actual: 4.1, atMost: 4 },
    { actual: Number.NaN, atMost: 4 },
    { actual: 9, atLeast: 1, atMost: 4 },
  ])('fails when one bar is missed: %j', (missed) => {
    expect(report({ name: 'grant', figures: {}, bars: { kept: { actual: 1, atMost: 2 }, missed } })).toBe(false)
    expect(process.exitCode).toBe(1)
  })
})

test('interleaving starts every round with the next contender', async () => {
  const order: string[] = []
  const contender = (name: string, figure: number) => () => {
    order.push(name)
    return figure * (1 + order.length)
  }
  const { medians, ratio } = await interleave(2, { ours: contender('a', 10), theirs: contender('b', 1) })
  expect(order).toEqual(['a', 'b', 'b', 'a'])
  expect(medians).toEqual({ ours: 35, theirs: 3.5 })
  expect(ratio('ours', 'theirs')).toBeCloseTo((20 / 3 + 50 / 4) / 2)
})

test('percentiles are values that occurred', () => {
  const values = Array.from({ length: 100 }, (_, index) => 100 - index)
  expect([0, 0.5, 0.99, 1].map((share) => percentile(values, share))).toEqual([1, 50, 99, 100])
  expect(median([4, 1, 2, 3])).toBe(2.5)
  expect(percentile([], 0.5)).toBeNaN()
})
