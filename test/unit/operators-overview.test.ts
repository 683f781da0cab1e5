import { describe, expect, test } from 'vitest'
import type { ChangeDocument } from '../../src/dashboard/documents.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { ownPace, readSnapshot } from '../../src/server/operators/changes.ts'
import { LockHistory } from '../../src/server/operators/lock-history.ts'
import { Overview, type OverviewQuery } from '../../src/server/operators/overview.ts'
import { minutesKept, Series } from '../../src/server/operators/series.ts'
import { Snapshots } from '../../src/server/operators/snapshots.ts'
import { fakeTime } from '../../src/testing/fake-time.ts'
import { around } from '../support/around.ts'
import { claim, claimOf } from '../support/claims.ts'
import { principalFor } from './support/principals.ts'

const minuteMs = 60_000

describe('the overview', () => {
  async function bench() {
    const time = fakeTime()
    const driver = memory({ clock: time.clock })
    const reads = { count: 0 }
    const counting = around(driver, {
      list(query) {
        reads.count += 1
        return driver.list(query)
      },
    })
    const overview = new Overview(new Snapshots(counting, time.environment), time.environment, 900)
    const of = (service: string) => ({ ...claimOf('x').runner, metadata: { service } })
    await claim(driver, claimOf('a/named:old'))
    await time.advance(5000)
    await claim(driver, claimOf('a/named:busy', { runner: of('shop') }))
    await claim(driver, claimOf('a/named:busy'))
    await claim(driver, claimOf('a/named:busy'))
    await claim(driver, claimOf('b/named:slow', { runner: of('bank') }))
    await claim(driver, claimOf('b/named:slow'))
    await time.advance(5000)
    const read = (query: OverviewQuery = {}, namespaces: readonly string[] | '*' = '*') =>
      overview.read(principalFor(namespaces), query, ownPace)
    const names = async (query: OverviewQuery) => (await read(query)).rows.map(({ scope }) => scope)
    return { time, reads, read, names }
  }

  test('has the most contended lock first, or sorts as asked, from either end', async () => {
    const { names } = await bench()
    expect(await names({})).toEqual(['busy', 'slow', 'old'])
    expect(await names({ sort: 'waiters', order: 'last' })).toEqual(['old', 'slow', 'busy'])
    expect(await names({ sort: 'age' })).toEqual(['old', 'busy', 'slow'])
    expect(await names({ sort: 'name', from: 1, limit: 1 })).toEqual(['old'])
  })

  test('is filtered by name, namespace, service and state', async () => {
    const { names, read } = await bench()
    expect(await names({ name: 'S' })).toEqual(['busy', 'slow'])
    expect(await names({ namespace: 'b' })).toEqual(['slow'])
    expect(await names({ service: 'shop' })).toEqual(['busy'])
    expect(await names({ state: 'waited-for' })).toEqual(['busy', 'slow'])
    expect(await names({ state: 'expired' })).toEqual([])
    expect(await read({ name: 'busy' })).toMatchObject({
      total: 1,
      rows: [{ held: 1, waiting: 2, longestWaitMs: 5000, services: ['shop'] }],
      namespaces: ['a', 'b'],
      services: ['bank', 'shop'],
    })
  })

  test('has what the principal may read and no more, from one read for all', async () => {
    const { read, reads } = await bench()
    const [all, own] = await Promise.all([read(), read({}, ['b'])])
    expect(all.total).toBe(3)
    expect(own).toMatchObject({ total: 1, namespaces: ['b'], services: ['bank'] })
    expect(reads.count).toBe(1)
  })
})

function change(wish: Partial<ChangeDocument> = {}): ChangeDocument {
  const namespace = wish.namespace ?? 'a'
  const runner = { id: 'runner', host: 'here', pid: 1, metadata: {} }
  const place = { namespace, scope: 'x', key: `${namespace}/named:x` }
  return {
    kind: 'granted',
    at: '2026-01-01T00:00:00.000Z',
    fence: 1,
    runner,
    detail: undefined,
    waitedMs: 0,
    takeover: undefined,
    ...place,
    ...wish,
  }
}

const nothing = { now: 0, keys: [], truncated: false }

describe('the series', () => {
  test('counts grants, takeovers, losses, and how long was waited, minute by minute', () => {
    const series = new Series()
    const grants = Array.from({ length: 98 }, () => change({ waitedMs: 100 }))
    series.record(0, nothing, [...grants, change({ waitedMs: 60_000, takeover: true }), change({ kind: 'lost' })])
    series.record(minuteMs, nothing, [change({ kind: 'queued' })])
    const { points } = series.shownTo(principalFor('*'), minuteMs)
    expect(points).toHaveLength(minutesKept)
    const [first, second] = points.slice(-2)
    expect(first).toMatchObject({ granted: 99, takeovers: 1, lost: 1, at: '1970-01-01T00:00:00.000Z' })
    expect(first?.waitP50Ms).toBeGreaterThanOrEqual(100)
    expect(first?.waitP50Ms).toBeLessThanOrEqual(120)
    expect(first?.waitP99Ms).toBeGreaterThanOrEqual(100)
    expect(second).toMatchObject({ granted: 0, queued: 1, waitP50Ms: undefined })
  })

  test('shows a reader its own namespaces, and forgets after an hour, however many namespaces there are', async () => {
    const series = new Series()
    series.record(0, nothing, [change(), change({ namespace: 'b' })])
    const granted = (namespaces: readonly string[] | '*', at: number) =>
      series.shownTo(principalFor(namespaces), at).points.reduce((sum, point) => sum + point.granted, 0)
    expect([granted('*', 0), granted(['b'], 0), granted(['c'], 0)]).toEqual([2, 1, 0])
    expect(granted('*', minutesKept * minuteMs)).toBe(0)
    series.record(
      minuteMs,
      nothing,
      Array.from({ length: 1000 }, (_, at) => change({ namespace: `n${at}` })),
    )
    expect(granted('*', minuteMs)).toBe(1002)
    expect(granted(['n1'], minuteMs)).toBe(1)
    expect(granted(['n999'], minuteMs)).toBe(0)
  })

  test('counts the most that waited at a time', async () => {
    const driver = memory({ clock: fakeTime().clock })
    for (let waiter = 0; waiter < 4; waiter += 1) await claim(driver, claimOf('a/named:x'))
    const series = new Series()
    series.record(0, await readSnapshot(driver, ownPace), [])
    series.record(1, nothing, [])
    expect(series.shownTo(principalFor('*'), 0).points.at(-1)?.waiting).toBe(3)
  })
})

describe('the history of a lock', () => {
  test('has its last changes, the newest first, for an hour', () => {
    const history = new LockHistory()
    for (let fence = 1; fence <= 80; fence += 1) history.record(fence, [change({ fence })])
    const kept = history.of('a', 'a/named:x')
    expect(kept.map(({ fence }) => fence)).toEqual(Array.from({ length: 50 }, (_, at) => 80 - at))
    history.record(3_600_080, [change({ namespace: 'b' })])
    expect(history.of('a', 'a/named:x')).toEqual([])
  })

  test('of one namespace is not pushed out by what happens in another', () => {
    const history = new LockHistory()
    history.record(0, [change()])
    const flood = Array.from({ length: 30_000 }, (_, at) => change({ namespace: 'b', key: `b/named:${at}` }))
    history.record(1, flood)
    expect(history.of('a', 'a/named:x')).toHaveLength(1)
    expect(history.of('b', 'b/named:0')).toEqual([])
    expect(history.of('b', 'b/named:29999')).toHaveLength(1)
  })
})
