import { describe, expect, test } from 'vitest'
import { leasePresets, resolveOptions, type AcquireOptions } from '../../src/api/options.ts'
import { pauseMs, pausesMs, retryPresets } from '../../src/core/time/backoff.ts'
import type { Supports } from '../../src/core/contract/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'

const { supports } = memory()
const resolve = (options: AcquireOptions, store: Partial<Supports> = {}, allowForce = false) =>
  resolveOptions(options, { ...supports, ...store }, allowForce)

describe('options', () => {
  test('default to a lease of 30 s renewed every 10', () => {
    expect(resolve({})).toMatchObject({ ttlMs: 30_000, heartbeatMs: 10_000, priority: 0, graceMs: 0 })
  })

  test('take the default of a store that has its own', () => {
    const store = { ttlDefaultMs: 300_000, heartbeatDefaultMs: 30_000 }
    expect(resolve({}, store)).toMatchObject({ ttlMs: 300_000, heartbeatMs: 30_000 })
    expect(resolve({ ttl: '9s' }, store)).toMatchObject({ ttlMs: 9000, heartbeatMs: 3000 })
  })

  test.each(Object.entries(leasePresets))('know the lease %s', (lease, times) => {
    expect(resolve({ lease: lease as keyof typeof leasePresets })).toMatchObject(times)
  })

  test('let ttl and heartbeat override a named lease', () => {
    expect(resolve({ lease: 'long', heartbeat: '5s' })).toMatchObject({ ttlMs: 60_000, heartbeatMs: 5000 })
    expect(resolve({ lease: 'long', ttl: '9s' })).toMatchObject({ ttlMs: 9000, heartbeatMs: 3000 })
    expect(resolve({ heartbeat: 'manual' }).heartbeatMs).toBe(Infinity)
  })

  test('know priorities by name', () => {
    expect(['low', 'normal', 'high', 7].map((priority) => resolve({ priority } as AcquireOptions).priority)).toEqual([
      -10, 0, 10, 7,
    ])
  })

  test('take a holder for stale after two and a half heartbeats by default', () => {
    expect(resolve({ onConflict: 'steal-stale' })).toMatchObject({ evict: 'stale', staleMs: 25_000 })
    expect(resolve({ onConflict: 'steal-stale', staleAfter: '7s' }).staleMs).toBe(7000)
  })

  test.each<[AcquireOptions | { timeout: number }, RegExp]>([
    [{ timeout: 5 }, /no option "timeout".*'wait'/],
    [{ ttl: 0 }, /ttl must be at least/],
    [{ ttl: '10s', heartbeat: '6s' }, /over half the ttl/],
    [{ lease: 'eternal' as never }, /lease is "eternal"/],
    [{ onConflict: 'smile' as never }, /onConflict is "smile"/],
    [{ onConflict: 'force' }, /allowForce: true/],
    [{ priority: 1.5 }, /priority is 1.5/],
    [{ priority: 5000 }, /priority is 5000/],
    [{ retry: { attempts: 0 } }, /retry.attempts/],
    [{ retry: { attempts: 1.5 } }, /retry.attempts is 1.5/],
    [{ retry: { attempts: Number.NaN } }, /retry.attempts is NaN/],
    [{ ttl: Number.NaN }, /ttl is NaN/],
    [{ ttl: Infinity }, /ttl is Infinity/],
    [{ wait: -Infinity }, /wait is -Infinity/],
    [{ wait: 'soon' as never }, /wait is "soon"/],
    [{ retry: { min: '2s', max: '1s' } }, /retry.min/],
    [{ retry: { jitter: 2 } }, /retry.jitter/],
    [{ retry: { factor: 0.5 } }, /retry.factor/],
    [{ retry: 'forever' as never }, /retry is "forever"/],
  ])('refuse %j', (options, message) => {
    expect(() => resolve(options as AcquireOptions)).toThrow(message)
    expect(() => resolve(options as AcquireOptions)).toThrow(expect.objectContaining({ code: 'INVALID' }))
  })

  test.each<[AcquireOptions, Partial<Supports>]>([
    [{ onConflict: 'preempt' }, { evict: [] }],
    [{ maxHold: '1h' }, { maxHold: false }],
    [{ grace: '1s' }, { grace: false }],
    [{ priority: 'high' }, { priority: false }],
  ])('say UNSUPPORTED to %j where the store cannot do it', (options, store) => {
    expect(() => resolve(options, store)).toThrow(expect.objectContaining({ code: 'UNSUPPORTED' }))
  })

  test('refuse a ttl that the store cannot keep', () => {
    expect(() => resolve({ ttl: 5 }, { ttlMinMs: 100 })).toThrow(/takes 100 to/)
  })
})

test('to wait for ever can be said', () => {
  expect(resolve({ wait: Infinity }).waitMs).toBe(Infinity)
})

describe('retrying', () => {
  test('takes as long as its pauses', () => {
    expect(Object.values(retryPresets).map(pausesMs)).toEqual([0, 21_300, 221_300])
    expect(pausesMs({ attempts: 1001, minMs: 10, maxMs: 10, factor: 1, jitter: 1 })).toBe(10_000)
    expect(pausesMs({ attempts: Infinity, minMs: 10, maxMs: 10, factor: 1, jitter: 0 })).toBe(Infinity)
  })

  test('has the presets none, standard and aggressive', () => {
    expect(Object.values(retryPresets).map(({ attempts }) => attempts)).toEqual([1, 10, 50])
    expect(resolve({ retry: 'aggressive' }).waitPolicy.retry?.attempts).toBe(50)
  })

  test('doubles from 100 ms up to 5 s', () => {
    const pauses = [1, 2, 3, 6, 7, 20].map((failures) =>
      pauseMs({ ...retryPresets.standard, jitter: 0 }, failures, 0.5),
    )
    expect(pauses).toEqual([100, 200, 400, 3200, 5000, 5000])
  })

  test('spreads each pause, and never beyond its bounds', () => {
    const backoff = { attempts: 5, minMs: 10, maxMs: 800, factor: 1.5, jitter: 0.2 }
    expect(pauseMs(backoff, 1, 0)).toBe(10)
    expect(pauseMs(backoff, 2, 0)).toBeCloseTo(12)
    expect(pauseMs(backoff, 2, 1)).toBeCloseTo(18)
    expect(pauseMs(backoff, 100, 1)).toBe(800)
  })
})
