import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { trustedUntil } from '../../src/core/time/deadline.ts'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { contentType, exposition, prometheus, type Prometheus } from '../../src/telemetry/prometheus.ts'
import { parseExposition, type ParsedSample } from '../support/exposition-parser.ts'
import { isSettled, locksBench } from './support/bench-of-locks.ts'
import { playStory, published, stage } from './support/eventful-story.ts'
import { clientOf } from '../support/client-of.ts'

/** What a scrape shows under a name. */
async function scrape(metrics: Prometheus): Promise<(name: string) => readonly ParsedSample[]> {
  const families = parseExposition(await metrics.text())
  const samples = [...families.values()].flatMap((family) => family.samples)
  return (name) => samples.filter((sample) => sample.name === `leasehold_${name}`)
}

const sumOf = (samples: readonly ParsedSample[]): number => samples.reduce((sum, { value }) => sum + value, 0)

describe('counters', () => {
  test('all are what stats() counts, after a story in which everything happens', async () => {
    const scene = await stage()
    const { watched } = scene
    using metrics = prometheus(watched)
    await playStory(scene)
    const shown = await scrape(metrics)
    const { counters } = await watched.stats()
    expect(Object.keys(counters)).toEqual(Object.keys(published))
    for (const [name, count] of Object.entries(counters)) {
      expect({ [name]: sumOf(shown(`${published[name]}_total`)) }).toEqual({ [name]: count })
      expect(count, `${name} does not happen in the story`).toBeGreaterThan(0)
    }
  })

  test('failures are told apart by their code', async () => {
    const scene = await stage()
    using metrics = prometheus(scene.watched)
    await playStory(scene)
    const failed = (await scrape(metrics))('failed_total')
    expect(Object.fromEntries(failed.map(({ labels, value }) => [labels['code'], value]))).toEqual({
      TIMEOUT: 1,
      HELD: 1,
      ABORTED: 0,
      DEADLOCK: 0,
      UNAVAILABLE: 0,
    })
  })

  test('have their lines in docs/metrics.md, as all metrics do', async () => {
    using metrics = prometheus(await locksBench().client())
    const docs = readFileSync('docs/metrics.md', 'utf8')
    const shown = [...parseExposition(await metrics.text()).keys()]
    const described = [...docs.matchAll(/^\| `(leasehold_\w+)/gm)].map(([, name]) => name)
    expect(described.toSorted()).toEqual(shown.toSorted())
  })

  test('start at nought, so that the first event is a rise', async () => {
    const locks = await locksBench().client({ namespace: 'shop' })
    using metrics = prometheus(locks)
    const shown = await scrape(metrics)
    expect(shown('lost_total')).toEqual([{ name: 'leasehold_lost_total', labels: { namespace: 'shop' }, value: 0 }])
    expect(shown('wait_seconds_count').map(({ value }) => value)).toEqual([0, 0])
  })

  test('stand still once it is disposed of, and nothing is listened to', async () => {
    const locks = await locksBench().client()
    const metrics = prometheus(locks)
    await locks.acquire('a')
    metrics[Symbol.dispose]()
    await locks.acquire('b')
    expect(sumOf((await scrape(metrics))('acquired_total'))).toBe(1)
    for (const name of ['acquired', 'released', 'renewed', 'failed', 'passed-on'] as const) {
      expect(clientOf(locks).hasListener(name)).toBe(false)
    }
  })
})

describe('histograms', () => {
  test('have what was waited and held, by how it ended', async () => {
    const { bench, watched, rival, line } = await stage()
    using metrics = prometheus(watched, { buckets: { wait: [0.25, 0.5, 5], hold: [1, 60] } })
    const held = await rival.acquire('a')
    const waiting = watched.acquire('a')
    await bench.advance(500)
    await held.release()
    const lease = await waiting
    await bench.advance(2000)
    await lease.release()
    const late = rival.acquire('b').then(() => watched.acquire('b', { wait: '7s' }))
    await Promise.all([bench.advance(7000), late.catch(() => undefined)])
    await watched.acquire('c', { ttl: '10s' })
    line.plan = { reject: 1 }
    await bench.advance(10_000)

    const shown = await scrape(metrics)
    const buckets = (name: string, outcome: string): unknown =>
      Object.fromEntries(
        shown(`${name}_bucket`)
          .filter(({ labels }) => labels['outcome'] === outcome)
          .map(({ labels, value }) => [labels['le'], value]),
      )
    const sum = (name: string, outcome: string): number =>
      sumOf(shown(`${name}_sum`).filter(({ labels }) => labels['outcome'] === outcome))
    expect(buckets('wait_seconds', 'acquired')).toEqual({ '0.25': 1, '0.5': 2, '5': 2, '+Inf': 2 })
    expect(sum('wait_seconds', 'acquired')).toBe(0.5)
    expect(buckets('wait_seconds', 'failed')).toEqual({ '0.25': 0, '0.5': 0, '5': 0, '+Inf': 1 })
    expect(sum('wait_seconds', 'failed')).toBe(7)
    expect(buckets('hold_seconds', 'released')).toEqual({ '1': 0, '60': 1, '+Inf': 1 })
    expect(sum('hold_seconds', 'released')).toBe(2)
    expect(buckets('hold_seconds', 'lost')).toEqual({ '1': 0, '60': 1, '+Inf': 1 })
    expect(sum('hold_seconds', 'lost')).toBe(trustedUntil(0, 10_000) / 1000)
  })

  test('every lease and every acquisition is in one of them', async () => {
    const scene = await stage()
    using metrics = prometheus(scene.watched)
    await playStory(scene)
    const shown = await scrape(metrics)
    const total = (...names: string[]): number => names.reduce((sum, name) => sum + sumOf(shown(`${name}_total`)), 0)
    expect(sumOf(shown('wait_seconds_count'))).toBe(total('acquired', 'failed'))
    expect(sumOf(shown('hold_seconds_count'))).toBe(total('released', 'lost', 'passed_on'))
    expect(total('released', 'lost', 'passed_on')).toBe(total('acquired') - sumOf(shown('leases_held')))
  })

  test.each([[[]], [[1, 1]], [[2, 1]], [[NaN]], [[1, Infinity]]])('buckets %j are INVALID', async (wait) => {
    const locks = await locksBench().client()
    expect(() => prometheus(locks, { buckets: { wait } })).toThrow('INVALID: buckets.wait')
    expect(clientOf(locks).hasListener('acquired')).toBe(false)
  })
})

describe('gauges', () => {
  test('tell what is held, renewed, asked for, and how the namespace looks', async () => {
    const { bench, watched, rival } = await stage()
    using metrics = prometheus(watched)
    await rival.acquire('a', { ttl: '5s', heartbeat: 'manual', grace: '1h' })
    await rival.acquire('b')
    await watched.acquire('c', { ttl: '60s' })
    await watched.acquire('d', { ttl: '40s', heartbeat: 'manual' })
    const waiting = watched.acquire('b')
    await bench.advance(6000)
    const shown = await scrape(metrics)
    const namespace = 'shop'
    expect(shown('leases_held')).toEqual([{ name: 'leasehold_leases_held', labels: { namespace }, value: 2 }])
    expect(sumOf(shown('heartbeats'))).toBe(1)
    expect(sumOf(shown('acquisitions_pending'))).toBe(1)
    expect(sumOf(shown('lease_remaining_seconds'))).toBe(trustedUntil(-6000, 40_000) / 1000)
    expect(sumOf(shown('up'))).toBe(1)
    expect(shown('locks').map(({ labels, value }) => [labels, value])).toEqual([
      [{ namespace, state: 'active' }, 3],
      [{ namespace, state: 'stale' }, 1],
    ])
    await Promise.all([watched.close(), waiting.catch(() => undefined)])
  })

  test('nothing held has no time left to show', async () => {
    using metrics = prometheus(await locksBench().client())
    expect((await scrape(metrics))('lease_remaining_seconds')).toEqual([])
  })
})

describe('the store', () => {
  const broken = (list: LockDriver['list']) => async () => {
    const bench = locksBench()
    bench.wrap = (driver) => new Proxy(driver, { get: (of, name) => (name === 'list' ? list : bound(of, name)) })
    const locks = await bench.client()
    await locks.acquire('a')
    return { bench, locks }
  }
  const bound = (driver: LockDriver, name: string | symbol): unknown => {
    const member: unknown = Reflect.get(driver, name)
    return typeof member === 'function' ? (member.bind(driver) as unknown) : member
  }

  test('that is down is told by leasehold_up, and the rest is shown all the same', async () => {
    const { locks } = await broken(() => Promise.reject(new Error('gone')))()
    using metrics = prometheus(locks)
    const shown = await scrape(metrics)
    expect(sumOf(shown('up'))).toBe(0)
    expect(shown('locks')).toEqual([])
    expect(sumOf(shown('leases_held'))).toBe(1)
    expect(shown('acquired_total')).toHaveLength(1)
  })

  test('that does not answer holds a scrape up for no longer than it may, and is asked once at a time', async () => {
    let asked = 0
    const { bench, locks } = await broken(() => {
      asked += 1
      return new Promise(() => {})
    })()
    using metrics = prometheus(locks, { storeWithin: '2s' })
    const scrapes = [scrape(metrics), scrape(metrics)]
    await bench.advance(1999)
    expect(await isSettled(Promise.race(scrapes))).toBe(false)
    await bench.advance(1)
    for (const shown of await Promise.all(scrapes)) expect(sumOf(shown('up'))).toBe(0)
    expect(asked).toBe(1)
  })

  test('is not asked if it is told so', async () => {
    const { locks } = await broken(() => expect.unreachable())()
    using metrics = prometheus(locks, { store: false })
    const shown = await scrape(metrics)
    expect([...shown('up'), ...shown('locks')]).toEqual([])
    expect(sumOf(shown('leases_held'))).toBe(1)
  })

  test('of a closed client is down, and no timer is left', async () => {
    const bench = locksBench()
    const locks = await bench.client()
    using metrics = prometheus(locks)
    await locks.close()
    for (let time = 0; time < 2; time += 1) expect(sumOf((await scrape(metrics))('up'))).toBe(0)
    expect(bench.timers).toBe(0)
  })

  test('that comes back is up again', async () => {
    let down = true
    const answer = { now: 0, keys: [] }
    const { locks } = await broken(() => (down ? Promise.reject(new Error('gone')) : Promise.resolve(answer)))()
    using metrics = prometheus(locks)
    expect(sumOf((await scrape(metrics))('up'))).toBe(0)
    down = false
    expect(sumOf((await scrape(metrics))('up'))).toBe(1)
  })
})

describe('labels', () => {
  test('are given by the caller, for what is counted', async () => {
    const { watched } = await stage()
    using metrics = prometheus(watched, { labels: ({ scope }) => ({ kind: scope.split('/')[0] ?? '' }) })
    for (const name of ['order/1', 'order/2', 'user/1']) await (await watched.acquire(name)).release()
    const shown = await scrape(metrics)
    expect(shown('acquired_total').map(({ labels, value }) => [labels, value])).toEqual([
      [{ namespace: 'shop', kind: 'order' }, 2],
      [{ namespace: 'shop', kind: 'user' }, 1],
    ])
    expect(shown('hold_seconds_count').map(({ labels, value }) => [labels, value])).toEqual([
      [{ namespace: 'shop', outcome: 'released', kind: 'order' }, 2],
      [{ namespace: 'shop', outcome: 'released', kind: 'user' }, 1],
    ])
  })

  test.each([
    ['throw', () => expect.unreachable()],
    ['are called as ours are', () => ({ outcome: 'x' })],
    ['Prometheus would not take', () => ({ 'a-b': 'x' })],
    ['are no text', () => ({ size: 3 as unknown as string })],
  ])('that %s are complained about, and the event counts without them', async (_what, labels) => {
    const complaints: string[] = []
    const logger = { debug() {}, info() {}, warn: (message: string) => void complaints.push(message), error() {} }
    const locks = await locksBench().client({ logger })
    using metrics = prometheus(locks, { labels })
    await locks.acquire('a')
    const shown = await scrape(metrics)
    expect(shown('acquired_total').map(({ labels: all, value }) => [all, value])).toEqual([
      [{ namespace: 'default' }, 1],
    ])
    expect(complaints).toEqual([expect.stringContaining("A listener for 'acquired' threw: ")])
  })

  test('that everything has keep two clients of one namespace apart on one page', async () => {
    const bench = locksBench()
    const [one, other] = [await bench.client(), await bench.client()]
    using first = prometheus(one, { commonLabels: { client: 'one' } })
    using second = prometheus(other, { commonLabels: { client: 'other' } })
    await one.acquire('a')
    const page = parseExposition(exposition([...(await first.families()), ...(await second.families())]))
    expect(page.get('leasehold_leases_held')?.samples.map(({ labels, value }) => [labels, value])).toEqual([
      [{ namespace: 'default', client: 'one' }, 1],
      [{ namespace: 'default', client: 'other' }, 0],
    ])
    expect(() => prometheus(one, { commonLabels: { state: 'x' } })).toThrow('INVALID: The label "state" is taken')
  })

  test('the type of the answer says the version of the format', async () => {
    using metrics = prometheus(await locksBench().client())
    expect(metrics.contentType).toBe('text/plain; version=0.0.4; charset=utf-8')
    expect(contentType).toBe(metrics.contentType)
  })
})
