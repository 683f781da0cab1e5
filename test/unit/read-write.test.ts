import { describe, expect, test } from 'vitest'
import type { Lease, WaitOptions } from '../../src/index.ts'
import type { ClaimStatus } from '../../src/core/contract/driver.ts'
import { around } from '../support/around.ts'
import { faulty } from '../../src/testing/faults.ts'
import { isSettled, locksBench } from './support/bench-of-locks.ts'
import { clientOf } from '../support/client-of.ts'
import { handleOf } from '../../src/api/lease/lease-handle.ts'

describe('a read/write lock', () => {
  test('lets readers in together and a writer alone, in the order in which they came', async () => {
    const { client } = locksBench()
    const rw = (await client()).readWrite('a')
    const [one, two] = [await rw.read(), await rw.read()]
    expect(await rw.tryWrite()).toBeNull()
    const writing = rw.write()
    const late = rw.read()
    expect(await isSettled(late), 'readers do not pass a writer that waits').toBe(false)
    expect(await rw.tryRead()).toBeNull()
    await one.release()
    expect(await isSettled(writing)).toBe(false)
    await two.release()
    const writer = await writing
    expect(await isSettled(late)).toBe(false)
    await writer.release()
    expect((await late).fence).toBeGreaterThan(writer.fence)
  })

  test('starves neither side: with both coming all the time, both get on', async () => {
    const { client, advance } = locksBench()
    const rw = (await client()).readWrite('a')
    const turns = { read: 0, write: 0 }
    const ending = new AbortController()
    const work = async (kind: 'read' | 'write', holdMs: number) => {
      for (let turn = 0; turn < 100 && !ending.signal.aborted; turn += 1) {
        await using lease = await rw[kind]()
        await advanceOne(holdMs)
        turns[kind] += lease.held ? 1 : 0
      }
    }
    const waits: (() => void)[] = []
    const advanceOne = (_ms: number) => new Promise<void>((resolve) => waits.push(resolve))
    const workers = [work('read', 1), work('read', 1), work('read', 1), work('write', 1), work('write', 1)]
    for (let round = 0; round < 200; round += 1) {
      await advance(1)
      waits.splice(Math.floor(Math.random() * waits.length), 1)[0]?.()
    }
    ending.abort()
    while (!(await isSettled(Promise.all(workers)))) {
      await advance(1)
      for (const wake of waits.splice(0)) wake()
    }
    expect(turns.read).toBeGreaterThan(20)
    expect(turns.write).toBeGreaterThan(20)
  })

  test('runs bodies, remembers its options, and reads under a range', async () => {
    const { client } = locksBench()
    const locks = await client()
    const rw = locks.readWrite('a', { ttl: '9s' })
    expect(await rw.runRead((lease) => lease.remainingMs)).toBeGreaterThan(8000)
    expect(await rw.runWrite({ ttl: '1s' }, (lease) => lease.remainingMs)).toBeLessThan(1000)
    expect(await locks.inspect('a')).toBeNull()
  })
})

describe('upgrade', () => {
  test('of the only reader is granted at once, with a new fence; the old lease is over and nothing is lost', async () => {
    const { client, advance } = locksBench()
    const locks = await client()
    const lost: number[] = []
    locks.on('lost', ({ fence }) => lost.push(fence))
    const reader = await locks.readWrite('a').read({ ttl: '3s' })
    const { signal } = reader
    const writer = await reader.upgrade()
    expect(writer.fence).toBeGreaterThan(reader.fence)
    expect([reader.held, writer.held]).toEqual([false, true])
    await expect(reader.renew()).rejects.toMatchObject({
      code: 'NOT_HELD',
      message: expect.stringContaining('converted') as string,
    })
    expect(await reader.release()).toEqual({ released: false, reason: 'converted' })
    await advance(20_000)
    expect(writer.held, 'the new lease is renewed as the old one was').toBe(true)
    expect(signal.aborted).toBe(false)
    expect(lost).toEqual([])
    expect((await locks.inspect('a'))?.holders).toMatchObject([{ mode: 'exclusive', fence: writer.fence }])
  })

  test('ends the old lease once: it is passed on, unless it is being released already', async () => {
    const { client } = locksBench()
    const locks = await client()
    const ends: unknown[] = []
    locks.on('passed-on', ({ how, fence }) => ends.push([how, fence]))
    locks.on('released', ({ fence }) => ends.push(['released', fence]))
    const first = await locks.readWrite('a').read()
    const writer = await first.upgrade()
    await writer.downgrade()
    const second = await locks.readWrite('b').read()
    await Promise.all([second.upgrade(), second.release()])
    expect(ends).toEqual([
      ['converted', first.fence],
      ['converted', writer.fence],
      ['released', second.fence],
    ])
    expect((await locks.stats()).counters).toMatchObject({ 'lock.passed_on': 2 })
  })

  test('goes ahead of every waiter, whatever its priority, once the other readers have left', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    const reader = await one.readWrite('a').read({ ttl: '3s' })
    const second = await other.readWrite('a').read()
    const urgent = other.readWrite('a').write({ priority: 'high' })
    await advance(10)
    const upgrading = reader.upgrade()
    await advance(10_000)
    expect(reader.held, 'it goes on reading meanwhile').toBe(true)
    expect(await isSettled(upgrading)).toBe(false)
    await second.release()
    const writer = await upgrading
    expect(await isSettled(urgent)).toBe(false)
    await writer.release()
    await urgent
  })

  test('asked for once more while under way is refused, and loses nothing though no news arrives', async () => {
    const bench = locksBench()
    bench.wrap = (driver) => faulty(driver, { dropNotifications: 1 })
    const [one, other] = [await bench.client(), await bench.client()]
    const lost: string[] = []
    one.on('lost', ({ reason }) => lost.push(reason))
    const [reader, second] = [await one.readWrite('a').read({ ttl: '3s' }), await other.readWrite('a').read()]
    const upgrading = reader.upgrade()
    await bench.advance(10)
    await expect(reader.upgrade()).rejects.toMatchObject({ code: 'INVALID' })
    await second.release()
    // The read lease is renewed before the upgrade hears that it was granted.
    await bench.advance(5000)
    const writer = await upgrading
    expect([writer.held, lost]).toEqual([true, []])
    await writer.release()
  })

  test('that cannot be asked for leaves the read lease as it was', async () => {
    const { client } = locksBench()
    const reader = await (await client()).readWrite('a').read()
    const signal = 5 as unknown as AbortSignal
    await expect(reader.upgrade({ signal })).rejects.toMatchObject({ code: 'INVALID' })
    expect([handleOf(reader).passing, handleOf(reader).claimRuntime.state.converting]).toEqual([undefined, 'no'])
    await (await reader.upgrade()).release()
  })

  test('does not make the longest hold longer by having been waited for', async () => {
    const bench = locksBench()
    const [one, other] = [await bench.client(), await bench.client()]
    const told: string[] = []
    one.on('jeopardy', ({ reason, remainingMs }) => told.push(`jeopardy ${reason} ${Math.round(remainingMs / 100)}`))
    one.on('lost', ({ reason }) => told.push(`lost ${reason}`))
    const reader = await one.readWrite('a').read({ ttl: '3s', maxHold: '20s' })
    const second = await other.readWrite('a').read({ ttl: '3s' })
    const upgrading = reader.upgrade()
    await bench.advance(10_000)
    await second.release()
    const writer = await upgrading
    await bench.advance(7500)
    expect([writer.held, told]).toEqual([true, []])
    await bench.advance(2500)
    expect([writer.held, told]).toEqual([false, ['jeopardy max-hold 10', 'lost max-hold']])
    // Nor does the store keep it for others to wait.
    const next = other.readWrite('a').write()
    await bench.advance(200)
    expect(await isSettled(next)).toBe(true)
  })

  test('by two at once gives the second DEADLOCK and leaves it its read lock', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    const [first, second] = [await one.readWrite('a').read(), await other.readWrite('a').read()]
    const upgrading = first.upgrade()
    await advance(10)
    await expect(second.upgrade()).rejects.toMatchObject({ code: 'DEADLOCK' })
    await advance(60_000)
    expect(second.held).toBe(true)
    await second.release()
    expect((await upgrading).held).toBe(true)
  })

  test.each([
    ['aborted', 'ABORTED'],
    ['not granted in time', 'TIMEOUT'],
    ['refused', 'HELD'],
  ])('that is %s leaves the read lock', async (how, code) => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    const [reader] = [await one.readWrite('a').read(), await other.readWrite('a').read()]
    const abort = new AbortController()
    const options: WaitOptions = { aborted: { signal: abort.signal }, refused: { wait: 0 } }[how] ?? { wait: '5s' }
    const outcome = reader.upgrade(options).catch((error: unknown) => error)
    await advance(1000)
    abort.abort()
    await advance(5000)
    expect(await outcome).toMatchObject({ code })
    await advance(60_000)
    expect(reader.held).toBe(true)
    expect(await other.readWrite('a').tryRead(), 'readers come in again').not.toBeNull()
    expect(await reader.release()).toEqual({ released: true })
  })

  test('whose grant is not heard of is not taken for a loss when the old claim is unknown to the store', async () => {
    const bench = locksBench()
    let deaf = false
    bench.wrap = (driver) =>
      around(driver, {
        listen: (received) =>
          driver.listen?.((...notification) => (deaf ? undefined : received(...notification))) ?? {
            [Symbol.dispose]() {},
          },
      })
    const [one, other] = [await bench.client(), await bench.client()]
    const lost: string[] = []
    one.on('lost', ({ reason }) => lost.push(reason))
    const reader = await one.readWrite('a').read({ ttl: '9s', heartbeat: '1s' })
    const second = await other.readWrite('a').read()
    const upgrading = reader.upgrade()
    await bench.advance(1500)
    deaf = true
    await second.release()
    await bench.advance(1000)
    expect(reader.signal.aborted).toBe(false)
    await bench.advance(8000)
    expect((await upgrading).held).toBe(true)
    expect(lost).toEqual([])
  })

  test('given up when it was granted already, unheard, is granted after all', async () => {
    const bench = locksBench()
    let receivedOnly: string | undefined
    bench.wrap = (driver) =>
      around(driver, {
        listen: (received) =>
          driver.listen?.((...notification) =>
            receivedOnly === undefined ? received(...notification) : undefined,
          ) ?? {
            [Symbol.dispose]() {},
          },
        async send(requests) {
          const statuses = await driver.send(requests)
          return statuses.map((status, index): ClaimStatus => {
            const request = requests[index]
            const receives = receivedOnly === undefined || request?.op !== 'renew' || request.id === receivedOnly
            return receives ? status : { state: 'unknown', error: new Error('cut') }
          })
        },
      })
    const [one, other] = [await bench.client(), await bench.client()]
    const reader = await one.readWrite('a').read({ ttl: '9s', heartbeat: '1s' })
    const second = await other.readWrite('a').read()
    const abort = new AbortController()
    const outcome = reader.upgrade({ signal: abort.signal }).catch((error: unknown) => error)
    await bench.advance(1500)
    receivedOnly = reader.toJSON().id
    await second.release()
    await bench.advance(1000)
    expect(reader.signal.aborted, 'a heartbeat that finds nothing is not believed yet').toBe(false)
    abort.abort()
    const writer = (await outcome) as Lease
    expect([writer.held, reader.held, reader.signal.aborted]).toEqual([true, false, false])
    expect(await other.readWrite('a').tryRead()).toBeNull()
    await writer.release()
    expect(await other.tryAcquire('a')).not.toBeNull()
  })

  test('whose answer is lost on the way is asked again, not given up', async () => {
    const bench = locksBench()
    let losing = 0
    bench.wrap = (driver) =>
      around(driver, {
        async send(requests) {
          const statuses = await driver.send(requests)
          if (losing-- <= 0) return statuses
          return statuses.map((): ClaimStatus => ({ state: 'unknown', error: new Error('cut') }))
        },
      })
    const locks = await bench.client()
    const reader = await locks.readWrite('a').read()
    losing = 2
    const upgrading = reader.upgrade()
    await bench.advance(1000)
    expect((await upgrading).held).toBe(true)
  })

  test('given up while the store cannot be reached ends with the read lease, and is not asked for again', async () => {
    const bench = locksBench()
    let broken = false
    let claims = 0
    bench.wrap = (driver) =>
      around(driver, {
        send(requests) {
          claims += requests.filter(({ op }) => op === 'claim').length
          return broken ? Promise.reject(new Error('no route')) : driver.send(requests)
        },
      })
    const locks = await bench.client()
    const reader = await locks.readWrite('a').read({ ttl: '5s' })
    broken = true
    const abort = new AbortController()
    const outcome = reader.upgrade({ signal: abort.signal }).catch((error: unknown) => error)
    await bench.advance(10)
    abort.abort()
    const claimsBefore = claims
    await bench.advance(5000)
    expect(reader.held).toBe(false)
    expect(await isSettled(outcome)).toBe(true)
    expect(await outcome).toMatchObject({ code: 'ABORTED' })
    await bench.advance(60_000)
    expect(claims).toBe(claimsBefore)
  })

  test('that was refused leaves a lease that is lost as soon as the store no longer knows it', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    const reader = await one.readWrite('a').read({ ttl: '9s', heartbeat: '1s' })
    await other.readWrite('a').read()
    await expect(reader.upgrade({ wait: 0 })).rejects.toMatchObject({ code: 'HELD' })
    await clientOf(other).driver.send([{ op: 'release', key: reader.key, id: handleOf(reader).claim.id }])
    await advance(1500)
    expect(reader.signal.aborted).toBe(true)
  })

  test('of a lease that is lost meanwhile is refused, and the loss is told', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client({ allowForce: true }), await client()]
    const reader = await one.readWrite('a').read()
    await other.readWrite('a').read()
    const upgrading = reader.upgrade().catch((error: unknown) => error)
    await advance(10)
    expect(await one.evict('a', { reason: 'test', fence: reader.fence })).toBe(1)
    await advance(30_000)
    expect(await upgrading).toMatchObject({ code: 'NOT_HELD' })
    expect(reader.loss).toMatchObject({ code: 'LOST', reason: 'evicted: test' })
  })

  test('in a run body is let go with the body', async () => {
    const { client } = locksBench()
    const locks = await client()
    await locks.readWrite('a').runRead(async (lease) => {
      await lease.upgrade()
    })
    expect(await locks.inspect('a')).toBeNull()
  })

  test('does not stretch the longest hold', async () => {
    const { client, advance } = locksBench()
    const locks = await client()
    const reader = await locks.readWrite('a').read({ ttl: '3s', maxHold: '10s' })
    await advance(8000)
    const writer = await reader.upgrade()
    await advance(1500)
    expect(writer.held).toBe(true)
    await advance(1000)
    expect(writer.held).toBe(false)
  })

  test('makes no sense for permits, nor twice at once, and is nothing for a writer', async () => {
    const { client } = locksBench()
    const locks = await client()
    const permit = await locks.semaphore('s', 2).acquire()
    await expect(permit.upgrade()).rejects.toMatchObject({ code: 'INVALID' })
    const writer = await locks.acquire('a')
    expect(await writer.upgrade()).toBe(writer)
    await writer.release()
    await expect(writer.downgrade()).rejects.toMatchObject({ code: 'NOT_HELD' })
  })
})

describe('downgrade', () => {
  test('lets waiting readers in at once, and keeps writers out', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    const writer = await one.readWrite('a').write()
    const reading = [other.readWrite('a').read(), other.readWrite('a').read()]
    const writing = other.readWrite('a').write()
    await advance(10)
    const reader = await writer.downgrade()
    expect(reader.fence).toBeGreaterThan(writer.fence)
    const others = await Promise.all(reading)
    expect(await isSettled(writing)).toBe(false)
    await advance(60_000)
    expect([reader, ...others].every(({ held }) => held)).toBe(true)
    await Promise.all([reader, ...others].map((lease) => lease.release()))
    await writing
  })
})
