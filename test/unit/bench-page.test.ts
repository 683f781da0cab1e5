import { existsSync, readFileSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { pageOf } from '../../bench/page/page.ts'
import { plan } from '../../bench/page/plan.ts'
import { readReasons } from '../../bench/page/reasons.ts'
import { readResults, reportIn, runsKept, withRun, type Results, type Run } from '../../bench/page/results.ts'
import { rowsOf } from '../../bench/page/rows.ts'
import type { Report } from '../../bench/report.ts'

const reasons = readReasons(readFileSync('bench/page/reasons.md', 'utf8'))

function runOf(bars: Report['bars'], ratios: Report['ratios'] = {}): Run {
  return {
    startedAt: '2026-11-18T16:30:00Z',
    seconds: 9,
    node: 'v20.19.0',
    cores: 2,
    load: [0.1, 1.2],
    busyBefore: 0.01,
    result: { name: 'redis-latency', figures: {}, bars, ratios },
  }
}

const title = 'Redis, one lock at a time: p50 of a pair'

/** A run in which a pair of ours takes `actual` times as long as a pair of redis-semaphore. */
function latencyRun(actual: number): Run {
  const peer = { name: 'redis-semaphore', kind: 'library', ours: 100 * actual, theirs: 100, unit: 'µs' } as const
  return runOf({ timeToRedisSemaphore: { title, peer, actual, atMost: 1 } })
}

function textOf(results: Results): string {
  return pageOf('.', results)['benchmarks.md'] ?? ''
}

/** What the page has below a heading. */
function sectionOf(page: string, heading: string): string {
  return page.split(/^## /m).find((section) => section.startsWith(`${heading}\n`)) ?? ''
}

test('the page and its plots are what the kept results say', () => {
  for (const [file, text] of Object.entries(pageOf('.', readResults('docs')))) {
    expect(readFileSync(path.join('docs', file), 'utf8'), file).toBe(text)
  }
})

test('every bench is planned, but for growth', () => {
  const files = readdirSync('bench').filter((file) => file.endsWith('.ts'))
  const benches = files.map((file) => path.basename(file, '.ts'))
  const others = new Set(['all', 'page', 'report', 'growth'])
  expect(plan.map(({ name }) => name).toSorted()).toEqual(benches.filter((name) => !others.has(name)).toSorted())
})

test('every reason is about a figure that its bench reports', () => {
  for (const heading of reasons.keys()) {
    const [bench = '', key = ''] = heading.split(' ')
    expect(existsSync(`bench/${bench}.ts`), heading).toBe(true)
    expect(readFileSync(`bench/${bench}.ts`, 'utf8'), heading).toContain(key.replace('*', ''))
  }
})

describe('a result', () => {
  const line = (report: Report): string => `figures\n\nRESULT ${JSON.stringify(report)}\n`
  const base = { name: 'etcd', figures: {} }

  test('is the last line of its kind', () => {
    const report = { ...base, bars: { lost: { title: 'leases lost', actual: 0, atMost: 0 } } }
    expect(reportIn(line({ ...base, bars: {} }) + line(report))).toEqual(report)
    expect(reportIn('killed')).toBeUndefined()
  })

  test('is refused if a figure has no title or was not measured', () => {
    expect(() => reportIn(line({ ...base, bars: { lost: { actual: 0, atMost: 0 } } }))).toThrow('lost has no title')
    const bars = { lost: { title: 'leases lost', actual: Number.NaN, atMost: 0 } }
    expect(() => reportIn(line({ ...base, bars }))).toThrow('lost was not measured')
  })
})

test('the latest runs are kept', () => {
  let results: Results = {}
  for (let run = 1; run <= runsKept + 2; run += 1) results = withRun(results, 'redis-latency', latencyRun(run))
  const [row] = rowsOf(results)
  expect(row).toMatchObject({ runs: runsKept, lowest: 3, highest: runsKept + 2, actual: 5, missed: runsKept })
})

describe('the page', () => {
  test('shows the median of the runs, their range and in how many the bar was missed', () => {
    const page = textOf({ 'redis-latency': [latencyRun(0.9), latencyRun(0.8), latencyRun(1.1)] })
    expect(page).toContain('| 90, 100 µs | 1.11× ahead | 0.9 (0.8 to 1.1) | at most 1: **missed in 1 of 3** |')
    expect(sectionOf(page, 'Bars that are missed')).toContain(
      `**${title}**: 0.9 (0.8 to 1.1) against redis-semaphore, must be at most 1 (missed in 1 of 3 runs).`,
    )
    expect(page).not.toContain('## Where others are faster')
  })

  test('says where others are faster, and why', () => {
    const section = sectionOf(textOf({ 'redis-latency': [latencyRun(1.06)] }), 'Where others are faster')
    expect(section).toContain(`**${title}**: 1.06× behind redis-semaphore.`)
    expect(section).toContain(reasons.get('redis-latency timeToRedisSemaphore'))
  })

  test('says so even if no bar asks for more', () => {
    const peer = { name: 'redlock', kind: 'library', ours: 50, theirs: 100, unit: 'pairs/s' } as const
    const page = textOf({ 'redis-latency': [runOf({}, { speed: { title, peer, actual: 0.5, better: 'more' } })] })
    expect(sectionOf(page, 'Where others are faster')).toContain('2× behind redlock')
    expect(page).toContain('**2× behind** | 0.5 | none; more is better |')
  })

  test('lists what has not been measured, and says when the machine was busy', () => {
    const page = textOf({ 'redis-latency': [{ ...latencyRun(1), busyBefore: 0.9 }] })
    expect(page).toContain('Not measured yet: memory, heap-growth,')
    expect(page).toContain('up to 90 % of its processors')
    expect(textOf({ 'redis-latency': [latencyRun(1)] })).not.toContain('busy with other work')
    expect(textOf({})).toContain('Nothing has been measured yet.')
  })
})

test('a plot draws ahead to the right, behind to the left, on a logarithmic axis', () => {
  const barOf = (actual: number): { readonly x: number; readonly width: number } => {
    const svg = pageOf('.', { 'redis-latency': [latencyRun(actual)] })['benchmarks/libraries.svg'] ?? ''
    const [, x, width] = /<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"/.exec(svg) ?? []
    return { x: Number(x), width: Number(width) }
  }
  const [ahead, behind] = [barOf(1 / 1.9), barOf(1.9)]
  expect(ahead.width).toBeGreaterThan(10)
  expect(behind.width).toBeCloseTo(ahead.width, 0)
  expect(behind.x + behind.width).toBeCloseTo(ahead.x, 0)
})
