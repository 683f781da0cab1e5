import { AsyncLocalStorage } from 'node:async_hooks'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Locks } from '../../src/api/locks.ts'
import { faulty, type FaultyDriver } from '../../src/testing/faults.ts'
import { webLocks, type LockOptions, type WebLock, type WebLockManager } from '../../src/web-locks/index.ts'
import { around } from '../support/around.ts'
import { isSettled, locksBench, type LocksBench } from './support/bench-of-locks.ts'
import { deferred } from '../support/deferred.ts'

let bench: LocksBench
let locks: Locks
let manager: WebLockManager
let other: WebLockManager
let otherLocks: Locks

beforeEach(async () => {
  bench = locksBench()
  locks = await bench.client({ allowForce: true })
  otherLocks = await bench.client()
  manager = webLocks(locks)
  other = webLocks(otherLocks)
})
afterEach(async () => {
  await locks.close()
  await otherLocks.close()
})

/** A lock that is held until told otherwise. */
function holding(by: WebLockManager, name: string, options: LockOptions = {}) {
  const { promise: until, resolve: letGo } = deferred<string | undefined | void>()
  let lock: WebLock | null = null
  let ended: Promise<unknown> | undefined
  const granted = new Promise<WebLock | null>((resolve) => {
    ended = by.request(name, options, (given) => {
      lock = given
      resolve(given)
      return until
    })
    ended.catch(() => {})
  })
  return { granted, ended: ended as Promise<unknown>, letGo, lock: () => lock }
}

const never = () => new Promise<never>(() => {})
const ignore = () => {}
const abortError = expect.objectContaining({ name: 'AbortError' }) as Error

/** The name of the error a call rejects with. */
async function failure(call: (...given: unknown[]) => Promise<unknown>): Promise<string> {
  return call().then(
    () => 'no error',
    (error: unknown) => (error instanceof DOMException || error instanceof TypeError ? error.name : String(error)),
  )
}

/** Calls with arguments that types forbid. */
function request(...given: unknown[]): Promise<unknown> {
  return (manager.request as (...given: unknown[]) => Promise<unknown>)(...given)
}

describe('the arguments of request', () => {
  test.each<[string, unknown[]]>([
    ['none', []],
    ['no callback', ['a']],
    ['a callback that is no function', ['a', 'callback']],
    ['options and no callback', ['a', { mode: 'shared' }]],
    ['options and a callback that is no function', ['a', {}, null]],
    ['a symbol for a name', [Symbol('a'), ignore]],
    ['options that are no object', ['a', 'shared', ignore]],
    ['an unknown mode', ['a', { mode: 'foo' }, ignore]],
    ['a mode of null', ['a', { mode: null }, ignore]],
    ['a signal that is none', ['a', { signal: {} }, ignore]],
    ['a signal of null', ['a', { signal: null }, ignore]],
    ['a wrong mode before a reserved name', ['-a', { mode: 'foo' }, ignore]],
  ])('reject with TypeError: %s', async (_what, given) => {
    expect(await failure(() => request(...given))).toBe('TypeError')
  })

  test.each<[string, unknown[]]>([
    ['a name with a leading hyphen', ['-', ignore]],
    ['a longer one', ['-a', {}, ignore]],
    ['steal with ifAvailable', ['a', { steal: true, ifAvailable: true }, ignore]],
    ['steal of a shared lock', ['a', { steal: true, mode: 'shared' }, ignore]],
    ['a signal with steal', ['a', { signal: new AbortController().signal, steal: true }, ignore]],
    ['a signal with ifAvailable', ['a', { signal: new AbortController().signal, ifAvailable: true }, ignore]],
    [
      'a fired signal with steal: the signal is looked at last',
      ['a', { signal: AbortSignal.abort(), steal: true }, ignore],
    ],
  ])('reject with NotSupportedError: %s', async (_what, given) => {
    expect(await failure(() => request(...given))).toBe('NotSupportedError')
  })

  test('are read from left to right, and options by the alphabet', async () => {
    const read: string[] = []
    const options = Object.fromEntries(['steal', 'signal', 'mode', 'ifAvailable'].map((name) => [name, undefined]))
    const watched = new Proxy(options, {
      get: (_target, name) => void read.push(String(name)),
    })
    const name = { toString: () => (read.push('name'), 'a') }
    await request(name, watched, ignore)
    expect(read).toEqual(['name', 'ifAvailable', 'mode', 'signal', 'steal'])
  })

  test('may leave options out as undefined or null, and name anything that has text', async () => {
    for (const options of [undefined, null, {}, { mode: undefined, signal: undefined }, ignore]) {
      expect(await request('a', options, (lock: WebLock) => lock.mode)).toBe('exclusive')
    }
    expect(await request(42, (lock: WebLock) => lock.name)).toBe('42')
    expect(await request(null, (lock: WebLock) => lock.name)).toBe('null')
  })

  test('reject, they never throw, and the callback is not called', () => {
    let called = false
    expect(() => void request('-', () => (called = true)).catch(ignore)).not.toThrow()
    expect(called).toBe(false)
  })

  test.each([
    '',
    '0',
    'a b',
    'a\0b',
    '\n',
    '\uFFFF',
    '\uD800',
    '\uDC00\uD800',
    '%',
    '%0000',
    'ünï',
    '😀',
    'long'.repeat(500),
  ])('may name a lock %j', async (name) => {
    const lock = holding(manager, name)
    expect((await lock.granted)?.name).toBe(name)
    expect((await other.query()).held).toEqual([{ name, mode: 'exclusive', clientId: locks.runner.client }])
    expect(await other.request(name, { ifAvailable: true }, (given) => given)).toBe(null)
    lock.letGo()
    await lock.ended
  })

  test('tell names apart that look alike', async () => {
    const names = ['', '%', '\0', '%0000', '\uD800', '\uFFFD', 'a', 'A', 'a ']
    const held = names.map((name) => holding(manager, name))
    for (const lock of held) expect(await lock.granted).not.toBe(null)
  })
})

describe('a request', () => {
  test('calls back with the lock, and resolves with what that gives once the lock is free', async () => {
    const result = manager.request('a', async (lock) => {
      expect(lock).toMatchObject({ name: 'a', mode: 'exclusive' })
      expect(Object.prototype.toString.call(lock)).toBe('[object Lock]')
      expect(Object.prototype.toString.call(manager)).toBe('[object LockManager]')
      return 'result'
    })
    expect(await result).toBe('result')
    expect(await manager.request('a', { ifAvailable: true }, (lock) => lock?.name)).toBe('a')
  })

  test('never calls back before it has returned', async () => {
    let returned = false
    const result = manager.request('a', () => returned)
    returned = true
    expect(await result).toBe(true)
  })

  test('takes a callback that is not async, and rejects with what a callback throws', async () => {
    expect(await manager.request('a', () => 7)).toBe(7)
    const thrown = new Error('mine')
    const throwing = (): never => {
      throw thrown
    }
    await expect(manager.request('a', throwing)).rejects.toBe(thrown)
    await expect(manager.request('a', () => Promise.reject(thrown))).rejects.toBe(thrown)
    await expect(manager.request('a', { ifAvailable: true }, throwing)).rejects.toBe(thrown)
    expect((await manager.query()).held).toEqual([])
  })

  test('holds until what the callback returned has settled, across clients', async () => {
    const first = holding(manager, 'a')
    await first.granted
    const second = holding(other, 'a')
    expect(await isSettled(second.granted)).toBe(false)
    first.letGo('done')
    expect(await first.ended).toBe('done')
    await second.granted
    second.letGo()
    await second.ended
  })

  test('of one client is processed in order, whatever the names', async () => {
    const order: string[] = []
    const requests = ['c', 'a', 'b', 'a', 'c'].map((name, index) =>
      manager.request(
        name,
        { ifAvailable: index === 3 },
        (lock) => void order.push(`${name}${index}${lock ? '' : ' null'}`),
      ),
    )
    await Promise.all(requests)
    expect(order.slice(0, 4)).toEqual(['c0', 'a1', 'b2', 'a3 null'])
    expect(order[4]).toBe('c4')
  })

  test.each([
    ['a', 'b'],
    ['b', 'a'],
  ])(
    'of %s that must wait does not hold up one of %s that is free, though it is let go in the same turn',
    async (held, free) => {
      const order: string[] = []
      const lease = await locks.acquire(held)
      const first = manager.request(held, () => void order.push(held))
      const second = manager.request(free, () => void order.push(free))
      const released = lease.release()
      await Promise.all([first, second, released])
      expect(order).toEqual([free, held])
    },
  )

  test('of many locks is granted in the order asked, also where a turn is more than a batch', async () => {
    const order: number[] = []
    const numbers = Array.from({ length: 240 }, (_, index) => index)
    await Promise.all(
      numbers.map((number) => manager.request(`${(number * 7919) % 1000}`, () => void order.push(number))),
    )
    expect(order).toEqual(numbers)
  })

  test('keeps the caller’s async context for its callback', async () => {
    const context = new AsyncLocalStorage<string>()
    const seen = await context.run('mine', () => manager.request('a', () => context.getStore()))
    expect(seen).toBe('mine')
  })

  test('means the same lock as locks.acquire of that name', async () => {
    const lease = await locks.acquire('a')
    expect(await manager.request('a', { ifAvailable: true }, (lock) => lock)).toBe(null)
    await lease.release()
  })

  test('has a fence and a signal beyond the specification', async () => {
    const fences = [await manager.request('a', (lock) => lock?.fence), await other.request('a', (lock) => lock?.fence)]
    expect(fences[1]).toBeGreaterThan(fences[0] as number)
  })
})

describe('modes', () => {
  test('shared locks are held together, an exclusive one alone', async () => {
    const readers = [holding(manager, 'a', { mode: 'shared' }), holding(other, 'a', { mode: 'shared' })]
    for (const reader of readers) expect((await reader.granted)?.mode).toBe('shared')
    const writer = holding(manager, 'a')
    expect(await isSettled(writer.granted)).toBe(false)
    for (const reader of readers) reader.letGo()
    await writer.granted
    expect(await other.request('a', { mode: 'shared', ifAvailable: true }, (lock) => lock)).toBe(null)
    writer.letGo()
    await writer.ended
  })

  test('a shared request does not pass an exclusive one that waits', async () => {
    const reader = holding(manager, 'a', { mode: 'shared' })
    await reader.granted
    const writer = holding(other, 'a')
    const late = holding(manager, 'a', { mode: 'shared' })
    expect(await isSettled(late.granted)).toBe(false)
    expect(await other.request('a', { mode: 'shared', ifAvailable: true }, (lock) => lock)).toBe(null)
    reader.letGo()
    await writer.granted
    expect(await isSettled(late.granted)).toBe(false)
    writer.letGo()
    await late.granted
  })
})

describe('ifAvailable', () => {
  test('calls back with null when the lock is held, and grants it when it is not', async () => {
    const holder = holding(manager, 'a')
    await holder.granted
    expect(await manager.request('a', { ifAvailable: true }, (lock) => [lock])).toEqual([null])
    expect((await manager.query()).pending).toEqual([])
    holder.letGo()
    await holder.ended
    expect(await manager.request('a', { ifAvailable: true }, (lock) => lock?.name)).toBe('a')
  })
})

describe('signal', () => {
  test('that has fired rejects with its reason, whatever it is', async () => {
    await expect(manager.request('a', { signal: AbortSignal.abort() }, ignore)).rejects.toThrow(abortError)
    await expect(manager.request('a', { signal: AbortSignal.abort('mine') }, ignore)).rejects.toBe('mine')
  })

  test('that fires while waiting rejects with its reason and leaves the queue', async () => {
    const holder = holding(manager, 'a')
    await holder.granted
    const controller = new AbortController()
    let called = false
    const waiting = manager.request('a', { signal: controller.signal }, () => (called = true))
    const behind = holding(manager, 'a')
    expect((await manager.query()).pending).toHaveLength(2)
    controller.abort('no longer')
    await expect(waiting).rejects.toBe('no longer')
    expect((await manager.query()).pending).toHaveLength(1)
    holder.letGo()
    await behind.granted
    expect(called).toBe(false)
  })

  test('that fires in the same turn is in time', async () => {
    const controller = new AbortController()
    let called = false
    const waiting = manager.request('a', { signal: controller.signal }, () => (called = true))
    controller.abort()
    await expect(waiting).rejects.toThrow(abortError)
    expect((await manager.query()).held).toEqual([])
    expect(called).toBe(false)
  })

  test('that fires between the grant and the callback is in time', async () => {
    const controller = new AbortController()
    let called = false
    const first = manager.request('a', () => controller.abort('by the callback before'))
    const second = manager.request('b', { signal: controller.signal }, () => (called = true))
    await first
    await expect(second).rejects.toBe('by the callback before')
    expect(await manager.query()).toEqual({ held: [], pending: [] })
    expect(called).toBe(false)
  })

  test('has taken the request out of the queue for whoever looks after it', async () => {
    const holder = holding(other, 'a')
    await holder.granted
    const controller = new AbortController()
    const waiting = manager.request('a', { signal: controller.signal }, ignore)
    expect((await manager.query()).pending).toHaveLength(1)
    controller.abort()
    const looked = manager.query()
    await expect(waiting).rejects.toThrow(abortError)
    expect((await looked).pending).toEqual([])
  })

  test('that fires after the grant is ignored', async () => {
    const controller = new AbortController()
    const result = manager.request('a', { signal: controller.signal }, async () => {
      controller.abort()
      return 'done'
    })
    expect(await result).toBe('done')
  })
})

describe('steal', () => {
  test('ends the holders at once, passes those who wait, and rejects what was stolen with AbortError', async () => {
    const stolen = holding(other, 'a')
    const { signal } = (await stolen.granted) as WebLock
    const waiting = holding(other, 'a')
    const thief = holding(manager, 'a', { steal: true })
    await thief.granted
    await expect(stolen.ended).rejects.toThrow(abortError)
    await expect(stolen.ended).rejects.toBeInstanceOf(DOMException)
    expect(signal.aborted).toBe(true)
    expect(await isSettled(waiting.granted)).toBe(false)
    // Letting go of what was stolen must not free what the thief has.
    stolen.letGo()
    expect(await isSettled(waiting.granted)).toBe(false)
    thief.letGo()
    await waiting.granted
  })

  test('of a lock requested in the same turn: its callback would begin without it, and does not', async () => {
    let called = false
    const stolen = failure(() => manager.request('a', () => (called = true)))
    const thief = holding(manager, 'a', { steal: true })
    expect(await stolen).toBe('AbortError')
    expect((await thief.granted)?.name).toBe('a')
    expect(called).toBe(false)
  })

  test('takes all shared locks, a free lock, and what was itself stolen', async () => {
    const readers = [holding(manager, 'a', { mode: 'shared' }), holding(other, 'a', { mode: 'shared' })]
    for (const reader of readers) await reader.granted
    const first = holding(manager, 'a', { steal: true })
    await first.granted
    for (const reader of readers) await expect(reader.ended).rejects.toThrow(abortError)
    const second = holding(manager, 'a', { steal: true })
    await second.granted
    await expect(first.ended).rejects.toThrow(abortError)
    expect(await manager.request('free', { steal: true }, (lock) => lock?.name)).toBe('free')
  })

  test('does not touch what has been let go before', async () => {
    expect(await manager.request('a', () => 'done')).toBe('done')
    await manager.request('a', { steal: true }, ignore)
  })

  test('needs a client that may take locks from live holders', async () => {
    await expect(other.request('a', { steal: true }, ignore)).rejects.toThrow(
      expect.objectContaining({
        name: 'NotSupportedError',
        message: expect.stringContaining('allowForce') as string,
      }) as Error,
    )
  })
})

describe('query', () => {
  test('shows what is held and waits, with modes and clients, in the order of the queue', async () => {
    const mine = locks.runner.client
    const theirs = otherLocks.runner.client
    const first = holding(manager, 'a')
    await first.granted
    void manager.request('a', { mode: 'shared' }, never).catch(ignore)
    void manager.request('a', never).catch(ignore)
    expect(await manager.query()).toEqual({
      held: [{ name: 'a', mode: 'exclusive', clientId: mine }],
      pending: [
        { name: 'a', mode: 'shared', clientId: mine },
        { name: 'a', mode: 'exclusive', clientId: mine },
      ],
    })
    const reader = holding(other, 'b', { mode: 'shared' })
    await reader.granted
    expect((await other.query()).held).toContainEqual({ name: 'b', mode: 'shared', clientId: theirs })
    expect(mine).not.toBe(theirs)
  })

  test('names the digest of a long name where the store does not tell the name', async () => {
    const long = 'long'.repeat(200)
    // As over postgres-advisory, where a session says who it is with its first claim, whatever the lock.
    bench.wrap = (driver) =>
      around(driver, {
        list: async (query) => {
          const page = await driver.list(query)
          const told = page.keys.flatMap(({ claims }) => claims)[0]?.runner
          const keys = page.keys.map(({ key, claims }) => ({
            key,
            claims: claims.map((claim) => ({ ...claim, runner: told ?? claim.runner })),
          }))
          return { ...page, keys }
        },
      })
    const observer = webLocks(await bench.client())
    const held = [holding(manager, long), holding(manager, `${long}er`)]
    for (const lock of held) await lock.granted
    const names = (await observer.query()).held.map(({ name }) => name)
    expect(names.filter((name) => name.startsWith(long))).toHaveLength(1)
    expect(names.filter((name) => name.startsWith('%sha256-'))).toHaveLength(1)
  })

  test('gives arrays when there is nothing', async () => {
    expect(await manager.query()).toEqual({ held: [], pending: [] })
  })

  test('no longer shows a lock once its request has resolved', async () => {
    await manager.request('a', ignore)
    expect(await other.query()).toEqual({ held: [], pending: [] })
  })
})

describe('what leases add', () => {
  test('a lock that is lost, because the store cannot be reached, rejects like one that is stolen', async () => {
    const store: FaultyDriver[] = []
    bench.wrap = (driver) => (store[0] = faulty(driver))
    const cut = await bench.client({ defaults: { ttl: '3s' } })
    const holder = holding(webLocks(cut), 'a')
    const lock = (await holder.granted) as WebLock
    for (const driver of store) driver.plan = { reject: 1 }
    await bench.advance(3000)
    await expect(holder.ended).rejects.toThrow(abortError)
    await expect(holder.ended).rejects.toMatchObject({ cause: { code: 'LOST' } })
    expect(lock.signal.aborted).toBe(true)
    await cut.close()
  })

  test('a closed client is like a document that was left', async () => {
    const holder = holding(other, 'a')
    await holder.granted
    const waiting = failure(() => manager.request('a', ignore))
    await locks.close()
    expect(await waiting).toBe('AbortError')
    expect(await failure(() => manager.request('a', ignore))).toBe('InvalidStateError')
    expect(await failure(() => manager.query())).toBe('InvalidStateError')
    // Arguments are read before anything is done, and the rest is looked at after.
    expect(await failure(() => request('a', 'no options', ignore))).toBe('TypeError')
    expect(await failure(() => request('-', { steal: true, ifAvailable: true }, ignore))).toBe('InvalidStateError')
  })
})

test('a lock manager looks like the one of the browser', () => {
  expect(Object.prototype.toString.call(manager)).toBe('[object LockManager]')
  expect([manager.request.length, manager.query.length]).toEqual([2, 0])
})
