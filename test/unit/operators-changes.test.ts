import { describe, expect, test } from 'vitest'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import type { Principal } from '../../src/server/contract/call.ts'
import { ChangeWatch, type ChangeWatchOptions } from '../../src/server/operators/change-watch.ts'
import { changesBetween, ownPace, readSnapshot, totalsOf } from '../../src/server/operators/changes.ts'
import { Snapshots } from '../../src/server/operators/snapshots.ts'
import { fakeTime } from '../../src/testing/fake-time.ts'
import { around } from '../support/around.ts'
import { ask, claim, claimOf, release, renew } from '../support/claims.ts'
import { principalFor } from './support/principals.ts'

const key = 'default/named:a'

describe('between two looks', () => {
  async function story(steps: (driver: LockDriver, advance: (ms: number) => Promise<void>) => Promise<void>) {
    const time = fakeTime()
    const driver = memory({ clock: time.clock })
    const first = claimOf(key, { ttlMs: 10_000 })
    await claim(driver, first)
    const second = claimOf(key, { ttlMs: 60_000 })
    await claim(driver, second)
    const before = await readSnapshot(driver, ownPace)
    await steps(driver, time.advance)
    const kinds = (changes: ReturnType<typeof changesBetween>) => changes.map((each) => [each.kind, each.fence > 0])
    const after = await readSnapshot(driver, ownPace)
    return { first, second, before, after, kinds: kinds(changesBetween(before, after, 'now')) }
  }

  test('who comes is queued', async () => {
    const { kinds } = await story(async (driver) => void (await claim(driver, claimOf(key))))
    expect(kinds).toEqual([['queued', false]])
  })

  test('who evicts a holder lets the next one in: released for all we see, then granted', async () => {
    const { kinds } = await story(async (driver) => {
      const [listed] = (await driver.list({ key })).keys
      const fence = listed?.claims[0]?.fence ?? 0
      await ask(driver, { op: 'evict', key, fence, reason: 'test' })
    })
    expect(kinds).toEqual([
      ['released', true],
      ['granted', true],
    ])
  })

  test('of a queue too long to list, only what is known to have changed is told', async () => {
    const { kinds, after } = await story(async (driver) => {
      for (let waiter = 0; waiter < 1500; waiter += 1) await claim(driver, claimOf(key))
    })
    expect(after.keys[0]).toMatchObject({ held: 1, waiting: 1501 })
    expect(kinds.filter(([kind]) => kind !== 'queued')).toEqual([])

    const time = fakeTime()
    const driver = memory({ clock: time.clock })
    const holder = claimOf(key)
    for (const each of [holder, ...Array.from({ length: 1500 }, () => claimOf(key))]) await claim(driver, each)
    await time.advance(10)
    const before = await readSnapshot(driver, ownPace)
    await time.advance(10)
    await release(driver, holder)
    const later = await readSnapshot(driver, ownPace)
    expect(changesBetween(before, later, 'now').map(({ kind }) => kind)).toEqual(['released', 'granted'])
    const urgent = Array.from({ length: 20 }, () => claimOf(key, { priority: 5 }))
    for (const each of urgent) await claim(driver, each)
    const last = await readSnapshot(driver, ownPace)
    expect(changesBetween(later, last, 'now').map(({ kind }) => kind)).toEqual([])
    expect(totalsOf(last, () => true)).toMatchObject({ locks: 1, holders: 1, waiters: 1519 })
  })

  test('who stops waiting has left', async () => {
    const { kinds } = await story(async (driver) => {
      const waiter = (await driver.list({ key })).keys[0]?.claims[1]
      await ask(driver, { op: 'release', key, id: waiter?.id ?? '' })
    })
    expect(kinds).toEqual([['left', false]])
  })

  test('who did not renew has lost, once, whether it is cleared by then or not', async () => {
    const { before, after, kinds } = await story(async (_, advance) => advance(10_000))
    expect(kinds).toEqual([['lost', true]])
    expect(changesBetween(after, { ...after, keys: [] }, 'now').map((each) => each.kind)).toEqual(['left'])
    const gone = { ...after, keys: [] }
    expect(changesBetween(before, gone, 'now').map((each) => each.kind)).toEqual(['lost', 'left'])
  })

  test('what only lies beyond the end of a look is no news', async () => {
    const { before } = await story(async () => {})
    expect(changesBetween(before, { ...before, keys: [], truncated: true }, 'now')).toEqual([])
    expect(changesBetween({ ...before, keys: [], truncated: true }, before, 'now')).toEqual([])
  })

  test('no id is told', async () => {
    const { first, second, before, after } = await story(async (driver) => void (await claim(driver, claimOf(key))))
    const text = JSON.stringify(changesBetween({ ...before, keys: [] }, after, 'now'))
    expect(text).toContain('granted')
    expect(text).not.toContain(first.id)
    expect(text).not.toContain(second.id)
  })
})

test('claims that a client made in one millisecond are told apart where the store gives no ids', async () => {
  const driver = memory({ clock: fakeTime().clock })
  for (let waiter = 0; waiter < 4; waiter += 1) await claim(driver, claimOf(key))
  const withoutIds = async () => {
    const { now, keys } = await readSnapshot(driver, ownPace)
    const hidden = keys.map((listed) => ({ ...listed, claims: listed.claims.map((each) => ({ ...each, id: '' })) }))
    return { now, keys: hidden, truncated: false }
  }
  const after = await withoutIds()
  const none = { ...after, keys: [] }
  const kinds = changesBetween(none, after, 'now').map(({ kind }) => kind)
  expect(kinds).toEqual(['granted', 'queued', 'queued', 'queued'])
  expect(changesBetween(after, await withoutIds(), 'now')).toEqual([])
})

test('a grant says how long it was waited for, and whether the lease before it ran out', async () => {
  const time = fakeTime()
  const driver = memory({ clock: time.clock })
  await claim(driver, claimOf(key, { ttlMs: 1000 }))
  const next = claimOf(key)
  await claim(driver, next)
  const before = await readSnapshot(driver, ownPace)
  await time.advance(1500)
  await renew(driver, next)
  await claim(driver, claimOf('default/named:other'))
  const changes = changesBetween(before, await readSnapshot(driver, ownPace), 'now')
  expect(changes.filter(({ kind }) => kind === 'granted')).toMatchObject([
    { key, waitedMs: 1500, takeover: true },
    { key: 'default/named:other', waitedMs: 0, takeover: undefined },
  ])
})

const nothing = (): void => {}

describe('the watch', () => {
  function bench(options: Partial<ChangeWatchOptions> = {}) {
    const time = fakeTime()
    const driver = memory({ clock: time.clock })
    const looks = { count: 0, failing: false }
    const counting = around(driver, {
      list(query) {
        looks.count += 1
        return looks.failing ? Promise.reject(new Error('down')) : driver.list(query)
      },
    })
    const snapshots = new Snapshots(counting, time.environment)
    const { environment } = time
    const watch = new ChangeWatch({ store: counting, snapshots, environment, evicted: () => undefined, ...options })
    const watcher = (namespaces: readonly string[] | '*') => {
      const received: [string, unknown][] = []
      const source = watch.source(principalFor(namespaces))
      const stop = source.attach((event, data) => received.push([event, data]), nothing)
      return { received, events: () => received.splice(0).map(([event]) => event), stop: () => stop[Symbol.dispose]() }
    }
    return { time, driver, looks, watcher, watch }
  }

  test('looks once a second for all who watch, and not at all when nobody does', async () => {
    const { time, looks, watcher } = bench()
    await time.advance(5000)
    expect(looks.count).toBe(0)
    const [one, other] = [watcher('*'), watcher('*')]
    await time.advance(0)
    expect(looks.count).toBe(1)
    await time.advance(3000)
    expect(looks.count).toBe(4)
    one.stop()
    await time.advance(1000)
    expect(looks.count).toBe(5)
    other.stop()
    expect(time.timers).toBe(0)
    await time.advance(5000)
    expect(looks.count).toBe(5)
  })

  test('that always looks does so while nobody watches, for a fiftieth of the time, until it is closed', async () => {
    const { time, looks, watcher, watch } = bench({ always: true })
    await time.advance(3000)
    expect(looks.count).toBe(4)
    const one = watcher('*')
    await time.advance(1000)
    one.stop()
    await time.advance(2000)
    expect(looks.count).toBeGreaterThanOrEqual(7)
    watch.close()
    expect(time.timers).toBe(0)
  })

  test('tells who comes later what was seen last, without another look', async () => {
    const { time, looks, watcher } = bench()
    const one = watcher('*')
    await time.advance(0)
    const others = Array.from({ length: 50 }, () => watcher('*'))
    expect(others.map(({ events }) => events())).toEqual(others.map(() => ['store', 'totals']))
    await time.advance(500)
    expect(looks.count).toBe(1)
    looks.failing = true
    await time.advance(500)
    const late = watcher('*')
    expect(late.received).toEqual([['store', { up: false }]])
    for (const { stop } of [one, ...others, late]) stop()
  })

  test('asks a store where asking is dear as seldom as that wants to be asked', async () => {
    const { time, driver } = bench()
    let looks = 0
    const store = around(driver, {
      supports: {
        ...driver.supports,
        pollingDefault: { attempts: 9, minMs: 1000, maxMs: 16_000, factor: 2, jitter: 0 },
      },
      list(query) {
        looks += 1
        return driver.list(query)
      },
    })
    const { environment } = time
    const snapshots = new Snapshots(store, environment)
    const watch = new ChangeWatch({ store, snapshots, environment, evicted: () => undefined, always: true })
    const stop = watch.source(principalFor('*')).attach(nothing, nothing)
    await time.advance(33_000)
    expect(looks).toBe(3)
    stop[Symbol.dispose]()
  })

  test('tells each watcher of its own namespaces, and totals only when they change', async () => {
    const { time, driver, watcher } = bench()
    const [all, own] = [watcher('*'), watcher(['default'])]
    await time.advance(0)
    expect([all.events(), own.events()]).toEqual([
      ['store', 'totals'],
      ['store', 'totals'],
    ])
    const mine = claimOf(key)
    await claim(driver, claimOf('secret/named:b'))
    await claim(driver, mine)
    await time.advance(1000)
    expect(own.received).toMatchObject([
      ['change', { kind: 'granted', scope: 'a', namespace: 'default' }],
      ['rates', { granted: 1 }],
      ['totals', { locks: 1, holders: 1, waiters: 0 }],
    ])
    expect(all.events()).toEqual(['change', 'change', 'rates', 'totals'])
    await time.advance(1000)
    expect(all.events()).toEqual([])
    await release(driver, mine)
    await time.advance(1000)
    expect(own.events()).toEqual(['change', 'rates', 'totals', 'change', 'totals'])
    all.stop()
    own.stop()
  })

  test('goes through what a token may see once a look, however many watch with it', async () => {
    const { time, driver } = bench()
    await claim(driver, claimOf(key))
    let asked = 0
    const principal = principalFor(['default'])
    const counting: Principal = { ...principal, may: (right, of) => (asked += 1) > 0 && principal.may(right, of) }
    const { environment } = time
    const snapshots = new Snapshots(driver, environment)
    const watch = new ChangeWatch({ store: driver, snapshots, environment, evicted: () => undefined })
    const stops = Array.from({ length: 50 }, () => watch.source(counting).attach(nothing, nothing))
    await time.advance(0)
    expect(asked).toBe(1)
    await time.advance(1000)
    expect(asked).toBe(2)
    for (const stop of stops) stop[Symbol.dispose]()
  })

  test('says when the store does not answer, and what has changed when it does again', async () => {
    const { time, driver, looks, watcher } = bench()
    const { received, stop } = watcher('*')
    await time.advance(0)
    looks.failing = true
    await time.advance(2000)
    await claim(driver, claimOf(key))
    looks.failing = false
    await time.advance(1000)
    expect(received.slice(2)).toMatchObject([
      ['store', { up: false }],
      ['store', { up: true }],
      ['change', { kind: 'granted' }],
      ['rates', { granted: 1 }],
      ['totals', { locks: 1 }],
    ])
    stop()
  })

  test('counts what was granted, renewed, queued and lost, for each watcher its own', async () => {
    const { time, driver, watcher } = bench()
    const [held, brief, hidden] = [claimOf(key), claimOf(key, { ttlMs: 500 }), claimOf('secret/named:b')]
    for (const each of [held, hidden]) await claim(driver, each)
    const own = watcher(['default'])
    await time.advance(0)
    const renewFor30s = ({ key: of, id }: typeof held) => ask(driver, { op: 'renew', key: of, id, ttlMs: 30_000 })
    for (const each of [held, held, hidden]) await renewFor30s(each)
    await claim(driver, brief)
    await time.advance(1000)
    expect(own.received.find(([event]) => event === 'rates')).toEqual([
      'rates',
      { granted: 0, renewed: 2, queued: 1, lost: 0 },
    ])
    own.received.length = 0
    await ask(driver, { op: 'renew', key, id: held.id, ttlMs: 500 })
    await time.advance(1000)
    expect(own.received.find(([event]) => event === 'rates')).toMatchObject(['rates', { lost: 1 }])
    own.stop()
  })

  test('does not count renewals where the store does not', async () => {
    const { time, driver } = bench()
    const store = around(driver, { supports: { ...driver.supports, renewals: false } })
    const paces: unknown[] = []
    const { environment } = time
    const snapshots = new Snapshots(store, environment)
    const watch = new ChangeWatch({ store, snapshots, environment, evicted: () => undefined, always: true })
    const onNotification = (event: string, data: unknown): void => void (event === 'rates' && paces.push(data))
    const watching = watch.source(principalFor('*')).attach(onNotification, nothing)
    await time.advance(0)
    await claim(driver, claimOf(key))
    await time.advance(1000)
    expect(paces).toEqual([{ granted: 1, renewed: undefined, queued: 0, lost: 0 }])
    watching[Symbol.dispose]()
  })

  test('of a flood tells a part, and how much more there was', async () => {
    const { time, driver, watcher } = bench()
    const { received, stop } = watcher('*')
    await time.advance(0)
    for (let count = 0; count < 130; count += 1) await claim(driver, claimOf(`default/named:${count}`))
    await time.advance(1000)
    expect(received.filter(([event]) => event === 'change')).toHaveLength(100)
    expect(received.find(([event]) => event === 'more')).toEqual(['more', { changes: 30 }])
    stop()
  })
})
