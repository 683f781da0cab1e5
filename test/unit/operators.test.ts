import { describe, expect, test } from 'vitest'
import type { ClaimStatus } from '../../src/core/contract/driver.ts'
import { byteRange, connect, inode } from '../../src/index.ts'
import { faulty } from '../../src/testing/faults.ts'
import { locksBench } from './support/bench-of-locks.ts'

describe('list and inspect', () => {
  test('show holders and waiters in order, with times, and never an id', async () => {
    const { client, advance, clock } = locksBench()
    const [one, other] = [await client({ metadata: { task: 'import' } }), await client()]
    const lease = await one.acquire('a', { ttl: '1m', metadata: { step: 2 } })
    const low = other.acquire('a', { priority: 'low' })
    const high = other.acquire('a', { priority: 'high' })
    await advance(21_000)
    const info = await one.inspect('a')
    expect(info).toMatchObject({ scope: 'a', key: 'default/named:a' })
    expect(info?.holders).toMatchObject([
      {
        fence: lease.fence,
        renewalCount: 1,
        acquiredAt: new Date(clock.wall() - 21_000),
        ttlMs: 60_000,
        expired: false,
        runner: { id: one.runner.id, metadata: { task: 'import', step: 2, platform: process.platform } },
      },
    ])
    expect(info?.waiters.map(({ priority }) => priority)).toEqual([10, -10])
    expect(JSON.stringify(info)).not.toContain(lease.toJSON().id)
    await lease.release()
    await (await high).release()
    await (await low).release()
    expect(await one.inspect('a')).toBeNull()
  })

  test('page through a namespace by prefix', async () => {
    const locks = await locksBench().client()
    await Promise.all(['a/1', 'a/2', 'a/3', 'b/1'].map((name) => locks.acquire(name)))
    const first = await locks.list({ prefix: 'a/', limit: 2 })
    const second = await locks.list({ prefix: 'a/', limit: 2, ...(first.next !== undefined && { after: first.next }) })
    expect([first, second].map(({ locks: page }) => page.map(({ scope }) => scope))).toEqual([['a/1', 'a/2'], ['a/3']])
    expect(second.next).toBeUndefined()
  })

  test('a page of less than one lock is refused', async () => {
    const locks = await locksBench().client()
    for (const limit of [0, -1, 1.5, Number.NaN]) {
      await expect(locks.list({ limit })).rejects.toThrow(`INVALID: limit is ${limit}.`)
    }
  })

  test('explain says who stands in whose way', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    expect(await one.explain('a')).toBe('a is free: nobody holds it and nobody waits.')
    await one.acquire('a')
    void other.acquire('a').catch(() => {})
    await advance(10)
    const text = await one.explain('a')
    expect(text).toContain(`held by ${one.runner.id}`)
    expect(text).toContain(`1. in line: ${other.runner.id}`)
    await other.close()
  })

  test('status says whether, by whom and since when', async () => {
    const { client, clock } = locksBench()
    const locks = await client()
    expect(await locks.status('a')).toEqual({ locked: false, waiting: 0 })
    const lease = await locks.acquire('a')
    expect(await locks.status('a')).toMatchObject({
      locked: true,
      by: locks.runner.id,
      since: new Date(clock.wall()),
      fence: lease.fence,
      waiting: 0,
    })
  })
})

describe('evict', () => {
  test('takes the lock from the holder with that fence, and only with permission and a reason', async () => {
    const { client } = locksBench()
    const [one, operator] = [await client(), await client({ allowForce: true })]
    const lease = await one.acquire('a')
    await expect(one.evict('a', { reason: 'because' })).rejects.toMatchObject({ code: 'INVALID' })
    await expect(operator.evict('a', { reason: '' })).rejects.toMatchObject({ code: 'INVALID' })
    expect(await operator.evict('a', { reason: 'because', fence: lease.fence - 1 })).toBe(0)
    expect(await operator.evict('a', { reason: 'because', fence: lease.fence })).toBe(1)
    expect(await operator.evict('a', { reason: 'because' })).toBe(0)
  })

  test('that the store did not answer is an error, and never says that nobody held the lock', async () => {
    const bench = locksBench()
    const holder = await bench.client()
    const lease = await holder.acquire('a', { ttl: '10m' })
    bench.wrap = (driver) => faulty(driver, { dropReply: 1, only: ({ op }) => op === 'evict' })
    const operator = await bench.client({ allowForce: true })
    await expect(operator.evict('a', { reason: 'because' })).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      scope: 'a',
      key: lease.key,
    })
  })

  test('is refused where the store cannot do it', async () => {
    const bench = locksBench()
    bench.wrap = (driver) => Object.assign(driver, { supports: { ...driver.supports, evict: [] } })
    const operator = await bench.client({ allowForce: true })
    await operator.acquire('a')
    await expect(operator.evict('a', { reason: 'because' })).rejects.toMatchObject({ code: 'UNSUPPORTED' })
  })
})

describe('a byte range', () => {
  test('is inspected, explained and told the status of without those beside it', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    const left = await one.acquire(byteRange(9, 0, 10))
    const right = await one.acquire(byteRange(9, 100, 200))
    void other.acquire(byteRange(9, 150, 160)).catch(() => {})
    await advance(10)
    expect(await one.status(byteRange(9, 50, 60))).toEqual({ locked: false, waiting: 0 })
    expect(await one.inspect(byteRange(9, 50, 60))).toBeNull()
    expect(await one.explain(byteRange(9, 10, 100))).toContain('is free')
    expect(await one.status(byteRange(9, 9, 11))).toMatchObject({ locked: true, fence: left.fence, waiting: 0 })
    const info = await one.inspect(byteRange(9, 120, 155))
    expect(info).toMatchObject({ scope: 'inode 9 [120, 155)', holders: [{ fence: right.fence }] })
    expect(info?.waiters).toHaveLength(1)
    expect(await one.inspect(inode(9))).toMatchObject({ scope: 'inode 9', holders: [{}, {}], waiters: [{}] })
    await other.close()
  })

  test('is evicted without those beside it, and its inode with all of them', async () => {
    const { client } = locksBench()
    const operator = await client({ allowForce: true })
    const left = await operator.acquire(byteRange(9, 0, 10))
    const right = await operator.acquire(byteRange(9, 100, 200))
    const evicts = (start: number, end: number, fence?: number): Promise<number> =>
      operator.evict(byteRange(9, start, end), { reason: 'because', ...(fence !== undefined && { fence }) })
    expect(await evicts(10, 100)).toBe(0)
    expect(await evicts(0, 10, right.fence)).toBe(0)
    expect(await evicts(0, 10)).toBe(1)
    await left.renew().catch(() => {})
    await right.renew()
    expect([left.held, right.held]).toEqual([false, true])
    expect(await operator.evict(inode(9), { reason: 'because' })).toBe(1)
  })
})

describe('sweep', () => {
  test('clears away what has ended and nobody asked about', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    await one.acquire('a', { ttl: '1s', heartbeat: 'manual' })
    await one.acquire('b')
    await advance(2000)
    expect((await other.stats()).staleLocks).toBe(1)
    expect(await other.sweep()).toBe(1)
    expect((await other.list()).locks.map(({ scope }) => scope)).toEqual(['b'])
    expect(await other.sweep()).toBe(0)
  })

  test('says so when the store did not answer for some of them', async () => {
    const bench = locksBench()
    const holder = await bench.client()
    await holder.acquire('a', { ttl: '1s', heartbeat: 'manual' })
    bench.wrap = (driver) => faulty(driver, { reject: 1 })
    const other = await bench.client()
    await bench.advance(2000)
    await expect(other.sweep()).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  })
})

describe('verify', () => {
  test('checks found, then unexpired, then scope', async () => {
    const { client, advance } = locksBench()
    const [one, server] = [await client(), await client()]
    const lease = await one.acquire(byteRange(7, 0, 100), { ttl: '1s', heartbeat: 'manual', grace: '1m' })
    const proof = lease.toJSON()
    expect(await server.verify(proof, byteRange(7, 10, 20))).toEqual({ fence: lease.fence, remainingMs: 1000 })
    await expect(server.verify(proof, byteRange(7, 90, 101))).rejects.toMatchObject({ code: 'SCOPE_MISMATCH' })
    await expect(server.verify(proof, inode(7))).rejects.toMatchObject({ code: 'SCOPE_MISMATCH' })
    await expect(server.verify({ ...proof, id: 'guess' }, inode(7))).rejects.toMatchObject({ code: 'NOT_HELD' })
    await expect(server.verify({ ...proof, fence: 1 }, inode(7))).rejects.toMatchObject({ code: 'NOT_HELD' })
    await expect(server.verify('x' as never, inode(7))).rejects.toMatchObject({ code: 'INVALID' })
    await advance(1000)
    await expect(server.verify(proof, byteRange(7, 90, 101))).rejects.toMatchObject({ code: 'LOST' })
    await lease.release()
    await advance(0)
    await expect(server.verify(proof, byteRange(7, 0, 10))).rejects.toMatchObject({ code: 'NOT_HELD' })
  })

  test('does not accept the proof of another namespace', async () => {
    const { client } = locksBench()
    const [one, other] = [await client({ namespace: 'one' }), await client({ namespace: 'other' })]
    const lease = await one.acquire('a')
    await expect(other.verify(lease.toJSON(), 'a')).rejects.toMatchObject({ code: 'SCOPE_MISMATCH' })
  })
})

describe('stats', () => {
  test('count what the seeds name', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    const lease = await one.acquire('a', { ttl: '3s' })
    expect(await other.tryAcquire('a')).toBeNull()
    await expect(other.acquire('a', { onConflict: 'fail' })).rejects.toMatchObject({ code: 'HELD' })
    await advance(2000)
    const mine = await one.stats()
    expect(mine).toMatchObject({
      totalLocks: 1,
      myLocks: 1,
      activeLocks: 1,
      staleLocks: 0,
      activeHeartbeats: 1,
      totalAcquisitions: 1,
      counters: { 'lock.acquired': 1, 'lock.heartbeat_renewed': 2 },
    })
    expect(mine.gauges['lock.a.holder']).toBe(one.runner.id)
    expect(await other.stats()).toMatchObject({ totalConflicts: 2, failedAcquisitions: 1, myLocks: 0 })
    await lease.release()
    expect((await one.stats()).gauges['lock.a.hold_duration_ms']).toBe(2000)
  })

  test.each(['forced', 'evicted'])('do not count a holder that was %s as stale: it was alive', async (how) => {
    const { client } = locksBench()
    const [one, other] = [await client(), await client({ allowForce: true })]
    await one.acquire('a')
    if (how === 'evicted') await other.evict('a', { reason: 'stuck' })
    await other.acquire('a', { onConflict: how === 'forced' ? 'force' : 'wait' })
    const { counters, staleLocksClaimed } = await other.stats()
    expect(counters).toMatchObject({ 'lock.takeover_detected': 1, 'lock.stale_detected': 0 })
    expect(staleLocksClaimed).toBe(0)
  })

  test('do not count a holder as stale that its own runner has reclaimed', async () => {
    await using before = await connect('memory:reclaimed', { runner: 'stats' })
    await (await before.acquire('a')).handOff()
    await before.close()
    await using after = await connect('memory:reclaimed', { runner: 'stats' })
    await after.acquire('a', { onConflict: 'reclaim' })
    expect((await after.stats()).counters).toMatchObject({ 'lock.takeover_detected': 1, 'lock.stale_detected': 0 })
  })

  test.each([
    ['steal-stale', 1],
    ['wait', 0],
  ] as const)(
    'if the store does not say what evicted the holder, a claim with %s counts it as stale %i times',
    async (onConflict, times) => {
      const bench = locksBench()
      const one = await bench.client({ allowForce: true })
      // What a driver of an earlier version answers.
      bench.wrap = (driver) => ({
        name: driver.name,
        supports: driver.supports,
        open: () => driver.open(),
        close: () => driver.close(),
        send: async (requests) => (await driver.send(requests)).map(withoutCause),
        list: (query) => driver.list(query),
      })
      const other = await bench.client()
      await one.acquire('a')
      await one.evict('a', { reason: 'stuck' })
      await other.acquire('a', { onConflict })
      expect((await other.stats()).counters).toMatchObject({
        'lock.takeover_detected': 1,
        'lock.stale_detected': times,
      })
    },
  )

  test('count a holder as stale that expired', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    await one.acquire('a', { ttl: '3s', heartbeat: 'manual' })
    const next = other.acquire('a')
    await advance(3001)
    await next
    expect((await other.stats()).counters).toMatchObject({ 'lock.takeover_detected': 1, 'lock.stale_detected': 1 })
  })

  test('have the counters and gauges of this client also while the store is down, and say that it is', async () => {
    const bench = locksBench()
    let isDown = false
    bench.wrap = (driver) => ({
      name: driver.name,
      supports: driver.supports,
      open: () => driver.open(),
      close: () => driver.close(),
      send: (requests) => driver.send(requests),
      list: (query) => (isDown ? Promise.reject(new Error('connection refused')) : driver.list(query)),
    })
    const [one, other] = [await bench.client(), await bench.client()]
    await one.acquire('a')
    await (await one.acquire('b')).release()
    await other.acquire('c')
    expect(await one.stats()).toMatchObject({ totalLocks: 2, myLocks: 1 })
    expect(await one.stats()).not.toHaveProperty('storeError')
    isDown = true
    const local = await one.stats()
    expect(local).toMatchObject({
      totalLocks: 0,
      activeLocks: 0,
      staleLocks: 0,
      myLocks: 1,
      activeHeartbeats: 1,
      totalAcquisitions: 2,
      counters: { 'lock.acquired': 2, 'lock.released': 1 },
      storeError: { code: 'UNAVAILABLE', reason: 'network' },
    })
    expect(local.gauges).toMatchObject({ 'lock.a.holder': one.runner.id, 'lock.b.hold_duration_ms': 0 })
    expect(local.gauges).not.toHaveProperty('lock.c.holder')
    await one.close()
    await expect(one.stats()).rejects.toMatchObject({ code: 'CLOSED' })
  })

  test('remember for how long names were held: at least the thousand used last, and not many more', async () => {
    const { client } = locksBench()
    const locks = await client()
    for (const name of ['often', 'once']) await locks.run(name, () => {})
    for (let number = 0; number < 2500; number += 1) {
      if (number % 500 === 0) await locks.run('often', () => {})
      await locks.run(`name ${number}`, () => {})
    }
    const { gauges } = await locks.stats()
    const remembered = Object.keys(gauges)
    const last = Array.from({ length: 999 }, (_, index) => `lock.name ${2499 - index}.hold_duration_ms`)
    expect(remembered).toEqual(expect.arrayContaining(['lock.often.hold_duration_ms', ...last]))
    expect(remembered.length).toBeLessThanOrEqual(2000)
  })
})

describe('events and the logger', () => {
  test('tell the story of a lock, and no secret', async () => {
    const { client, advance } = locksBench()
    const lines: string[] = []
    const write = (message: string, details?: object) => lines.push(`${message} ${JSON.stringify(details)}`)
    const locks = await client({ logger: { debug: write, info: write, warn: write } })
    const lease = await locks.acquire('a', { ttl: '3s' })
    void locks.tryAcquire('a')
    await advance(1000)
    await lease.release()
    expect(lines.map((line) => line.split(':')[0])).toEqual([
      'lock acquired',
      'lock contention',
      'lock renewed',
      'lock released',
    ])
    expect(lines.join()).not.toContain(lease.toJSON().id)
  })

  test('survive listeners and loggers that throw', async () => {
    const { client } = locksBench()
    const fail = () => {
      throw new Error('broken')
    }
    const locks = await client({ logger: { debug: fail, info: fail, warn: fail } })
    locks.on('acquired', fail)
    const received: number[] = []
    const listening = locks.on('acquired', ({ fence }) => received.push(fence))
    const lease = await locks.acquire('a')
    expect(received).toEqual([lease.fence])
    listening[Symbol.dispose]()
    await lease.release()
    await locks.acquire('a')
    expect(received).toHaveLength(1)
  })
})

function withoutCause(status: ClaimStatus): ClaimStatus {
  if (status.state !== 'held' || status.after === undefined) return status
  const { how, fence, runner } = status.after
  return { ...status, after: { how, fence, runner } }
}
