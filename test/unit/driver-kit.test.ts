import { describe, expect, test } from 'vitest'
import { LeaseholdError } from '../../src/core/errors.ts'
import { CallSemaphore } from '../../src/drivers/kit/call-semaphore.ts'
import { CallTimedOut, withTimeout } from '../../src/drivers/kit/call-timeout.ts'
import { explained, explanations } from '../../src/drivers/kit/explanation.ts'
import { Lifecycle } from '../../src/drivers/kit/lifecycle.ts'
import { Listeners } from '../../src/drivers/kit/listeners.ts'
import { pageOfRows } from '../../src/drivers/kit/paging.ts'
import { isPlain, takesWholeKey } from '../../src/drivers/kit/plain-claim.ts'
import { Reconnector } from '../../src/drivers/kit/reconnector.ts'
import { hostAndPort, hostList, hostText } from '../../src/drivers/kit/url.ts'
import { fakeTime } from '../../src/testing/fake-time.ts'
import { claimOf } from '../support/claims.ts'
import { deferred } from '../support/deferred.ts'

describe('a life cycle', () => {
  const closed = { code: 'CLOSED', message: expect.stringContaining('This store has been closed') as string }

  test('shares the attempt under way, and makes another after a failure', async () => {
    let attempts = 0
    const lifecycle = new Lifecycle('This store', async () => {
      attempts += 1
      if (attempts === 1) throw new Error('not yet')
      return attempts
    })
    const both = await Promise.allSettled([lifecycle.opened(), lifecycle.opened()])
    expect(both.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    expect([await lifecycle.opened(), await lifecycle.opened(), lifecycle.current]).toEqual([2, 2, 2])
    lifecycle.forget(2)
    expect([lifecycle.current, await lifecycle.opened()]).toEqual([undefined, 3])
  })

  test('refuses once it is shut, and gives what was open once', async () => {
    const lifecycle = new Lifecycle('This store', async () => 'open')
    await lifecycle.opened()
    expect([lifecycle.shut(), lifecycle.shut(), lifecycle.current]).toEqual(['open', undefined, undefined])
    await expect(lifecycle.opened()).rejects.toMatchObject(closed)
    expect(() => lifecycle.refuseIfShut()).toThrow('This store has been closed')
  })

  test('discards what opens after it was shut', async () => {
    const { promise, resolve } = deferred<string>()
    const discarded: string[] = []
    const lifecycle = new Lifecycle(
      () => 'This store',
      () => promise,
      (opened) => void discarded.push(opened),
    )
    const opening = lifecycle.opened()
    expect(lifecycle.shut()).toBeUndefined()
    resolve('late')
    await expect(opening).rejects.toMatchObject(closed)
    await lifecycle.settled()
    expect([discarded, lifecycle.current]).toEqual([['late'], undefined])
  })

  test('says that it is shut, not what failed because of that', async () => {
    const { promise, reject } = deferred<string>()
    const lifecycle = new Lifecycle('This store', () => promise)
    const opening = lifecycle.opened()
    lifecycle.shut()
    reject(new Error('socket closed'))
    await expect(opening).rejects.toMatchObject(closed)
  })
})

describe('a reconnector', () => {
  const backoff = { attempts: Infinity, minMs: 100, maxMs: 400, factor: 2, jitter: 0 }

  test('pauses longer after each failure, and begins anew after a success', async () => {
    const time = fakeTime()
    let attempts = 0
    const reconnector = new Reconnector({ backoff, attempt: () => (attempts += 1), environment: time.environment })
    const attemptsAfter = async (milliseconds: number): Promise<number> => {
      await time.advance(milliseconds)
      return attempts
    }
    reconnector.failed()
    reconnector.failed()
    expect([await attemptsAfter(99), await attemptsAfter(1)]).toEqual([0, 1])
    reconnector.failed()
    expect([await attemptsAfter(199), await attemptsAfter(1)]).toEqual([1, 2])
    reconnector.succeeded()
    reconnector.failed()
    expect([await attemptsAfter(99), await attemptsAfter(1)]).toEqual([2, 3])
    reconnector.failed()
    reconnector.close()
    reconnector.failed()
    expect(await attemptsAfter(10_000)).toBe(3)
  })

  test('counts a connection that did not last as a failure', async () => {
    const time = fakeTime()
    const reconnector = new Reconnector({ backoff, attempt: () => {}, lastsMs: 500, environment: time.environment })
    reconnector.failed()
    await time.advance(100)
    reconnector.succeeded()
    await time.advance(499)
    reconnector.failed()
    expect(reconnector.failures).toBe(2)
    await time.advance(200)
    reconnector.succeeded()
    await time.advance(500)
    reconnector.failed()
    expect(reconnector.failures).toBe(1)
  })
})

test('listeners are notified until they stop, and hear of gaps', () => {
  const heard: unknown[] = []
  const listeners = new Listeners()
  const listening = listeners.listen(
    (...notification) => heard.push(notification),
    () => heard.push('gap'),
  )
  listeners.listen(() => {})
  listeners.notify('key', 'id', 'poll')
  listeners.gap()
  listening[Symbol.dispose]()
  listeners.notify('key', 'id', 'poll')
  listeners.gap()
  expect(heard).toEqual([['key', 'id', 'poll'], 'gap'])
})

test('a semaphore serves those who wait in order, for as long as they wait', async () => {
  const semaphore = new CallSemaphore(1)
  expect(await semaphore.take()).toBe(true)
  const order: string[] = []
  const second = semaphore.run(async () => void order.push('second'))
  const third = semaphore.run(async () => void order.push('third'))
  expect(await semaphore.take(1)).toBe(false)
  semaphore.giveBack()
  await Promise.all([second, third])
  expect(order).toEqual(['second', 'third'])
  await semaphore.take()
  const waiting = semaphore.take(60_000)
  semaphore.close()
  expect(await waiting).toBe(false)
})

test('a call that takes too long has timed out, and its own result counts before that', async () => {
  const never = withTimeout(new Promise(() => {}), 1, (withinMs) => `no answer within ${withinMs} ms`)
  await expect(never).rejects.toThrow(CallTimedOut)
  await expect(never).rejects.toThrow('no answer within 1 ms')
  await expect(withTimeout(Promise.resolve(7), 1000, String)).resolves.toBe(7)
})

test('an error is explained once', () => {
  const cause = new Error('connect ECONNREFUSED')
  const error = explained('Redis', cause, () => explanations.network)
  expect(error).toMatchObject({ code: 'UNAVAILABLE', reason: 'network', cause })
  expect(error.message).toContain('Redis: connect ECONNREFUSED. Locks that are held live on until their ttl ends.')
  expect(explained('Redis', error, () => explanations.timedOut)).toBe(error)
})

test('hosts are read as people write them', () => {
  const invalid = () => new LeaseholdError('INVALID', 'not a host')
  expect(hostAndPort('example.org', 6379, invalid)).toEqual({ host: 'example.org', port: 6379 })
  expect(hostList('a:1,[::1]:2', 6379, invalid).map(hostText)).toEqual(['a:1', '[::1]:2'])
  for (const bad of ['', ':1', 'a:0', 'a:65536', 'a:x', '::1', '[::1', 'a b', 'a,'])
    expect(() => hostList(bad, 1, invalid), bad).toThrow('not a host')
})

test('a page ends where one more row was read', () => {
  const listed = (key: string) => (key === 'b' ? undefined : { key, claims: [] })
  const page = (rows: readonly string[]) => pageOfRows(rows, { query: { limit: 2 }, now: 5 }, (key) => key, listed)
  expect(page(['a', 'b', 'c'])).toEqual({ now: 5, keys: [{ key: 'a', claims: [] }], next: 'b' })
  expect(page(['a', 'c'])).toMatchObject({ keys: [{ key: 'a' }, { key: 'c' }] })
  expect(page([])).toEqual({ now: 5, keys: [] })
})

test('a plain claim asks for the whole key and nothing else', () => {
  const wishes = {
    shared: { mode: 'shared' },
    range: { range: { start: 0, end: 1 } },
    conversion: { replaces: 'other' },
    longestHold: { maxHoldMs: 5 },
    priority: { priority: 1 },
    grace: { graceMs: 1 },
    eviction: { evict: 'stale' },
    detached: { detached: true },
  } as const
  const plain = claimOf('key', { graceMs: 0, priority: 0 })
  expect([isPlain(plain), isPlain({ ...plain, wait: false })]).toEqual([true, true])
  const named = Object.entries(wishes)
  expect(named.filter(([, wish]) => isPlain({ ...plain, ...wish }))).toEqual([])
  expect(named.filter(([, wish]) => takesWholeKey({ ...plain, ...wish })).map(([name]) => name)).toEqual([
    'priority',
    'grace',
    'eviction',
    'detached',
  ])
})
