import { describe, expect, test } from 'vitest'
import { byteRange, inode, LeaseholdError, type AcquireOptions, type Locks } from '../../src/index.ts'
import { describeScope } from '../../src/core/contract/scope.ts'
import { around } from '../support/around.ts'
import { isSettled, locksBench } from './support/bench-of-locks.ts'
import { clientOf } from '../support/client-of.ts'

describe('what makes no sense', () => {
  test.each<[string, (locks: Locks) => Promise<unknown>]>([
    ['acquire', (locks) => locks.acquire('')],
    ['tryAcquire', (locks) => locks.tryAcquire('')],
    ['run', (locks) => locks.run('', () => {})],
    ['acquireAll', (locks) => locks.acquireAll([''])],
    ['inspect', (locks) => locks.inspect('')],
    ['status', (locks) => locks.status('')],
    ['verify', (locks) => locks.verify({} as never, '')],
    ['list', (locks) => locks.list({ limit: 0 })],
  ])('%s rejects with, and throws nothing before there is a promise', async (_name, call) => {
    const { client } = locksBench()
    const locks = await client()
    const promise = call(locks)
    await expect(promise).rejects.toMatchObject({ code: 'INVALID' })
    await locks.close()
    await expect(call(locks)).rejects.toMatchObject({ code: expect.stringMatching(/CLOSED|INVALID/) as string })
  })
})

describe('an option that is undefined', () => {
  test('is as if it were not named: the default counts', async () => {
    const bench = locksBench()
    const [holder, other] = [await bench.client(), await bench.client({ defaults: { wait: 100, ttl: '9s' } })]
    const held = await holder.acquire('a')
    const code = (error: unknown) => (error as { code?: string }).code
    const direct = other.acquire('a', { wait: undefined, ttl: undefined }).catch(code)
    const fixed = other.lock('a', { wait: 200 }).acquire({ wait: undefined }).catch(code)
    await bench.advance(150)
    expect([await isSettled(direct), await isSettled(fixed)]).toEqual([true, false])
    await bench.advance(100)
    expect([await direct, await fixed]).toEqual(['TIMEOUT', 'TIMEOUT'])
    await held.release()
    expect((await other.acquire('a', { ttl: undefined })).remainingMs).toBeLessThanOrEqual(9000)
  })
})

describe('options that only show to be bad when they are used', () => {
  const cycle: Record<string, unknown> = {}
  cycle['self'] = cycle
  const bad: readonly [string, AcquireOptions][] = [
    ['metadata with a BigInt', { metadata: { size: 5n } }],
    ['metadata that contains itself', { metadata: cycle }],
    ['metadata that is too long', { metadata: { text: 'x'.repeat(9000) } }],
    ['a signal that is none', { signal: {} as AbortSignal }],
  ]
  const calls: readonly [string, (locks: Locks, options: AcquireOptions) => Promise<unknown>][] = [
    ['acquire', (locks, options) => locks.acquire('a', options)],
    ['tryAcquire', (locks, options) => locks.tryAcquire('a', options)],
    ['run', (locks, options) => locks.run('a', options, () => {})],
    ['acquireAll', (locks, options) => locks.acquireAll(['a', 'b'], options)],
    ['read', (locks, options) => locks.readWrite('a').read(options)],
    ['elect', async (locks, options) => locks.elect('a', options).campaign()],
    ['claim', (locks, options) => locks.claim('a', '1', options)],
    ['once', (locks, options) => locks.once('a', { atMost: '1s', ...options } as never, () => {})],
    ['resume', async (locks, options) => locks.resume(await (await locks.acquire('resumed')).handOff(), options)],
  ]
  test.each(calls.flatMap(([name, call]) => bad.map(([what, options]) => [name, what, call, options] as const)))(
    '%s with %s rejects with INVALID and leaves nobody waiting',
    async (_name, _what, call, options) => {
      const bench = locksBench()
      const locks = await bench.client()
      await expect(call(locks, options)).rejects.toMatchObject({ code: 'INVALID' })
      const { acquisitions, elections, claimRuntimes, timers } = clientOf(locks)
      expect([acquisitions.size, elections.size, claimRuntimes.size, timers.tasks]).toEqual([0, 0, 0, 0])
      expect(clientOf(locks).resuming.size).toBe(0)
      await locks.close()
      expect(bench.timers).toBe(0)
    },
  )
})

describe('acquire', () => {
  test('waits its turn and gets a higher fence', async () => {
    const { client } = locksBench()
    const [one, other] = [await client(), await client()]
    const first = await one.acquire('a')
    const second = other.acquire('a')
    expect(await isSettled(second)).toBe(false)
    await first.release()
    expect((await second).fence).toBeGreaterThan(first.fence)
  })

  test('rejects with TIMEOUT after wait, saying who holds, and leaves no claim behind', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    await one.acquire('a')
    const second = other.acquire('a', { wait: '5s' }).catch((error: unknown) => error)
    await advance(5000)
    expect(await second).toMatchObject({
      code: 'TIMEOUT',
      scope: 'a',
      queuePosition: 0,
      attempts: 1,
      holders: [{ runner: one.runner, remainingMs: expect.any(Number) as number }],
    })
    expect((await one.inspect('a'))?.waiters).toEqual([])
  })

  test('rejects with HELD when it is told to fail', async () => {
    const { client } = locksBench()
    const [one, other] = [await client(), await client()]
    await one.acquire('a')
    await expect(other.acquire('a', { onConflict: 'fail' })).rejects.toMatchObject({ code: 'HELD' })
  })

  test('rejects with ABORTED when the signal fires, and leaves no claim behind', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    await one.acquire('a')
    const abort = new AbortController()
    const second = other.acquire('a', { signal: abort.signal }).catch((error: unknown) => error)
    await advance(10)
    abort.abort(new Error('enough'))
    expect(await second).toMatchObject({ code: 'ABORTED', cause: { message: 'enough' } })
    await advance(0)
    expect((await one.inspect('a'))?.waiters).toEqual([])
    await expect(other.acquire('b', { signal: abort.signal })).rejects.toMatchObject({ code: 'ABORTED' })
  })

  test('lets higher priority go first', async () => {
    const { client } = locksBench()
    const locks = await client()
    const first = await locks.acquire('a')
    const order: string[] = []
    const take = async (name: string, priority: number) => {
      const lease = await locks.acquire('a', { priority })
      order.push(name)
      await lease.release()
    }
    const rest = [take('low', -5), take('normal', 0), take('high', 5)]
    await isSettled(Promise.all(rest))
    await first.release()
    await Promise.all(rest)
    expect(order).toEqual(['high', 'normal', 'low'])
  })

  test('of ranges that do not overlap waits for nobody', async () => {
    const { client } = locksBench()
    const locks = await client()
    await locks.acquire(byteRange(7, 0, 10))
    await locks.acquire(byteRange(7, 10, 20))
    expect(await locks.tryAcquire(byteRange(7, 5, 15))).toBeNull()
    expect(await locks.tryAcquire(inode(7))).toBeNull()
  })

  test('in another namespace is another lock', async () => {
    const { client } = locksBench()
    const [one, other] = [await client({ namespace: 'one' }), await client({ namespace: 'other' })]
    await one.acquire('a')
    expect(await other.tryAcquire('a')).not.toBeNull()
    expect((await other.list()).locks.map(({ key }) => key)).toEqual(['other/named:a'])
  })

  test('refuses names and options that make no sense, before asking the store', async () => {
    const locks = await locksBench().client()
    await expect(async () => locks.acquire('')).rejects.toMatchObject({ code: 'INVALID' })
    await expect(locks.acquire('a', { timeout: 5 } as never)).rejects.toMatchObject({ code: 'INVALID' })
    await expect(locksBench().client({ namespace: 'a/b' })).rejects.toMatchObject({ code: 'INVALID' })
  })

  test('goes by its own options, whatever the call before it was given', async () => {
    const { client } = locksBench()
    const locks = await client()
    const usual = (await locks.acquire('a')).toJSON().ttlMs
    const retry = { attempts: 1 }
    const without = { wait: undefined } as unknown as AcquireOptions
    const calls: AcquireOptions[] = [{ ttl: 5000 }, { ttl: 5000 }, without, { ttl: 7000 }, {}, { ttl: 5000, retry }]
    const ttls: number[] = []
    for (const [index, options] of calls.entries()) {
      const lease = await locks.acquire(`b${index}`, options)
      ttls.push(lease.toJSON().ttlMs)
    }
    expect(ttls).toEqual([5000, 5000, usual, 7000, usual, 5000])
    const unknown = { nothing: undefined } as AcquireOptions
    await expect(locks.acquire('c', unknown)).rejects.toMatchObject({ code: 'INVALID' })
  })

  test('tells where the holder before it came to grief', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    const takeovers: unknown[] = []
    other.on('takeover', (event) => takeovers.push(event.after))
    const first = await one.acquire('a', { heartbeat: 'manual', ttl: '1s' })
    const second = other.acquire('a')
    await advance(1001)
    await second
    expect(takeovers).toEqual([{ how: 'expired', fence: first.fence, runner: one.runner }])
  })
})

describe('tryAcquire', () => {
  test('gives null when somebody else holds, and waits only if told to', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    const first = await one.acquire('a')
    expect(await other.tryAcquire('a')).toBeNull()
    const patient = other.tryAcquire('a', { wait: 100 })
    await advance(99)
    expect(await isSettled(patient)).toBe(false)
    await advance(1)
    expect(await patient).toBeNull()
    await first.release()
    expect(await other.tryAcquire('a')).not.toBeNull()
  })
})

describe('conflict strategies', () => {
  test('steal-stale takes a lease whose heartbeat has stopped, before it expires', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    const silent = await one.acquire('a', { ttl: '1m', heartbeat: 'manual' })
    expect(await other.tryAcquire('a', { onConflict: 'steal-stale', staleAfter: '5s' })).toBeNull()
    const thief = other.acquire('a', { onConflict: 'steal-stale', staleAfter: '5s' })
    await advance(5001)
    expect((await thief).fence).toBeGreaterThan(silent.fence)
    expect(silent.signal.reason).toMatchObject({ code: 'LOST', reason: 'evicted: stale' })
    expect((await other.stats()).staleLocksClaimed).toBe(1)
  })

  test('preempt tells the holder to leave and waits for it', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    const leaving: unknown[] = []
    one.on('leaving', (event) => leaving.push(event.reason))
    const first = await one.acquire('a', { ttl: '9s' })
    const second = other.acquire('a', { onConflict: 'preempt', priority: 'high' })
    await advance(100)
    expect(leaving).toEqual(['preempted'])
    expect(await isSettled(second)).toBe(false)
    expect(first.held).toBe(true)
    await advance(9000)
    expect(first.held).toBe(false)
    await second
  })

  test('force takes the lock at once, and only if it was allowed', async () => {
    const { client } = locksBench()
    const [one, other] = [await client(), await client({ allowForce: true })]
    const first = await one.acquire('a')
    await expect(one.acquire('a', { onConflict: 'force' })).rejects.toMatchObject({ code: 'INVALID' })
    const second = await other.acquire('a', { onConflict: 'force' })
    expect(second.fence).toBeGreaterThan(first.fence)
    await isSettled(Promise.resolve())
    expect(first.loss).toMatchObject({ code: 'LOST', reason: 'evicted: forced' })
  })

  test('reclaim takes back what the same runner holds', async () => {
    const { client } = locksBench()
    const locks = await client()
    const first = await locks.acquire('a')
    const again = await locks.acquire('a', { onConflict: 'reclaim' })
    expect(again.fence).toBeGreaterThan(first.fence)
    expect(await isSettled(locks.acquire('a'))).toBe(false)
  })
})

describe('run', () => {
  test('holds while the body runs and gives its result', async () => {
    const { client } = locksBench()
    const locks = await client()
    const result = await locks.run('a', async (lease) => {
      expect(await locks.tryAcquire('a')).toBeNull()
      return lease.fence
    })
    expect(result).toBeGreaterThan(0)
    expect(await locks.tryAcquire('a')).not.toBeNull()
  })

  test('rejects with the body’s error and lets go all the same', async () => {
    const locks = await locksBench().client()
    await expect(locks.run('a', () => Promise.reject(new Error('body')))).rejects.toThrow('body')
    await expect(
      locks.run('a', () => {
        throw new Error('at once')
      }),
    ).rejects.toThrow('at once')
    expect(await locks.tryAcquire('a')).not.toBeNull()
  })

  test('rejects with LOST when the body finishes after the loss', async () => {
    const { client, advance } = locksBench()
    const locks = await client()
    const run = locks.run('a', { ttl: '1s', heartbeat: 'manual' }, () => advance(2000)).catch((error: unknown) => error)
    expect(await run).toMatchObject({ code: 'LOST', scope: 'a' })
  })

  test('prefers the body’s error to its own', async () => {
    const { client, advance } = locksBench()
    const locks = await client()
    const run = locks.run('a', { ttl: '1s', heartbeat: 'manual' }, async () => {
      await advance(2000)
      throw new Error('body')
    })
    await expect(run).rejects.toThrow('body')
  })

  test('lets the same owner in again when it is reentrant, with the same fence', async () => {
    const { client } = locksBench()
    const locks = await client()
    await locks.run('a', async (outer) => {
      await locks.run('a', { reentrant: true }, async (inner) => {
        expect(inner.fence).toBe(outer.fence)
      })
      expect(outer.held).toBe(true)
      expect(await locks.tryAcquire('a', { owner: 'somebody else', reentrant: true })).toBeNull()
    })
    expect(await locks.inspect('a')).toBeNull()
  })

  test('lets nobody in again who has lost the lock, though that was not noticed yet', async () => {
    const { client, block } = locksBench()
    const locks = await client()
    const lost = await locks.acquire('a', { owner: 'me', ttl: '1s' })
    block(1000)
    const again = await locks.acquire('a', { owner: 'me', reentrant: true })
    expect([lost.held, again.held, again === lost]).toEqual([false, true, false])
  })

  test('needs a function', async () => {
    const locks = await locksBench().client()
    await expect(locks.run('a', {} as never)).rejects.toMatchObject({ code: 'INVALID' })
  })
})

describe('lock', () => {
  test('remembers a scope and its options', async () => {
    const locks = await locksBench().client()
    const lock = locks.lock('a', { ttl: '9s' })
    const lease = await lock.acquire()
    expect(lease.remainingMs).toBeGreaterThan(8000)
    expect(await lock.tryAcquire()).toBeNull()
    await lease.release()
    expect(await lock.run(() => 5)).toBe(5)
    expect(await lock.run({ ttl: '1s' }, (held) => held.remainingMs)).toBeLessThan(1000)
  })
})

describe('acquireAll', () => {
  test('takes one lease for what it covers, in whatever order it is named', async () => {
    const { client } = locksBench()
    const locks = await client()
    const named = [
      byteRange(7, 0, 5),
      inode(7),
      byteRange(8, 2, 4),
      byteRange(8, 0, 9),
      byteRange(8, 0, 3),
      byteRange(8, 9, 10),
    ]
    for (const scopes of [named, named.toReversed()]) {
      const all = await locks.acquireAll(scopes)
      expect(all.leases.map(({ scope }) => describeScope(scope))).toEqual([
        'inode 7',
        'inode 8 [0, 9)',
        'inode 8 [9, 10)',
      ])
      await all.release()
    }
  })

  test('refuses ranges that exclude each other, and claims nothing', async () => {
    const { client } = locksBench()
    const locks = await client()
    await expect(locks.acquireAll(['a', byteRange(8, 3, 7), byteRange(8, 0, 5)])).rejects.toThrow(
      'INVALID: acquireAll cannot hold "inode 8 [0, 5)" and "inode 8 [3, 7)" together',
    )
    expect((await locks.list()).locks).toEqual([])
  })

  test('claims nothing if one of them cannot be locked in this store', async () => {
    const bench = locksBench()
    bench.wrap = (driver) => around(driver, { supports: { ...driver.supports, range: false } })
    const locks = await bench.client()
    await expect(locks.acquireAll(['b', byteRange(8, 0, 5)])).rejects.toMatchObject({ code: 'UNSUPPORTED' })
    await bench.advance(0)
    expect((await locks.list()).locks).toEqual([])
  })

  test('takes all in one order and lets all go', async () => {
    const { client } = locksBench()
    const locks = await client()
    const all = await locks.acquireAll(['b', 'a', byteRange(1, 5, 9), byteRange(1, 0, 5), 'a'])
    expect(all.leases.map(({ key }) => key)).toEqual([
      'default/inode:1',
      'default/inode:1',
      'default/named:a',
      'default/named:b',
    ])
    expect(all.held).toBe(true)
    expect(await all.release()).toEqual(all.leases.map(() => ({ released: true })))
  })

  test('takes none when one cannot be had in time', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    await one.acquire('b')
    const all = other.acquireAll(['a', 'b', 'c'], { wait: '1s' }).catch((error: unknown) => error)
    await advance(1000)
    expect(await all).toMatchObject({ code: 'TIMEOUT', scope: 'b' })
    expect((await one.list()).locks.map(({ scope }) => scope)).toEqual(['b'])
  })

  test('that has no time left to wait is out of time, not refused, and says how long it took', async () => {
    const bench = locksBench()
    await (await bench.client()).acquire('b')
    bench.wrap = (driver) =>
      around(driver, {
        async send(requests) {
          await new Promise<void>((resolve) => bench.environment.timer(700, resolve))
          return driver.send(requests)
        },
      })
    const slow = await bench.client()
    const all = slow.acquireAll(['a', 'b'], { wait: '600ms' }).catch((error: unknown) => error)
    await bench.advance(2000)
    expect(await all).toMatchObject({ code: 'TIMEOUT', message: expect.stringContaining('within 1400 ms') as string })
  })

  test('waits holding only what comes before, and has one deadline for all', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    const blocker = await one.acquire('b')
    const all = other.acquireAll(['a', 'b', 'c'], { wait: '1s' })
    await advance(500)
    expect(await one.tryAcquire('a')).toBeNull()
    const c = await one.tryAcquire('c')
    expect(c).not.toBeNull()
    await blocker.release()
    await advance(100)
    await c?.release()
    await advance(100)
    expect((await all).leases).toHaveLength(3)
  })

  test('that lost one while it waited for another has that again before it has all', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client({ allowForce: true }), await client()]
    const blocker = await one.acquire('b')
    const waiting = other.acquireAll(['a', 'b', 'c'])
    await advance(100)
    await one.evict('a', { reason: 'deploy' })
    const a = await one.tryAcquire('a')
    await blocker.release()
    await advance(100)
    expect(await isSettled(waiting)).toBe(false)
    expect((await one.inspect('b'))?.holders ?? [], 'who waits for one has none after it').toEqual([])
    await a?.release()
    await advance(100)
    const all = await waiting
    expect([all.held, all.signal.aborted, all.leases.length]).toEqual([true, false, 3])
  })

  test('of many at once never deadlocks', async () => {
    const { client, advance } = locksBench()
    const clients = await Promise.all(Array.from({ length: 6 }, () => client()))
    const names = ['a', 'b', 'c', 'd']
    let done = 0
    const work = clients.map(async (locks, index) => {
      for (let round = 0; round < 10; round += 1) {
        const mine = names.filter((_, position) => (round + index * 3 + position) % 3 !== 0)
        const all = await locks.acquireAll(index % 2 === 0 ? mine : mine.toReversed())
        done += 1
        await all.release()
      }
    })
    for (let round = 0; round < 40; round += 1) await advance(50)
    await Promise.all(work)
    expect(done).toBe(60)
  })

  test('aborts its signal when one of them is lost', async () => {
    const { client, advance } = locksBench()
    const locks = await client({ allowForce: true })
    const all = await locks.acquireAll(['a', 'b'])
    await locks.evict('b', { reason: 'wanted' })
    await advance(0)
    expect(all.signal.aborted).toBe(true)
    expect(all.signal.reason).toBeInstanceOf(LeaseholdError)
  })
})
