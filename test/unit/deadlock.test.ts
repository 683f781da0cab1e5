import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import type { AcquireOptions, Lease, LeaseholdError, Locks } from '../../src/index.ts'
import { around } from '../support/around.ts'
import { isSettled, locksBench } from './support/bench-of-locks.ts'

type Take = (locks: Locks, name: string, options: AcquireOptions) => Promise<Lease>

/** What an owner can take. A semaphore of one permit and a write lock are as exclusive as a lock. */
const kinds: Readonly<Record<'lock' | 'semaphore' | 'write', Take>> = {
  lock: (locks, name, options) => locks.acquire(name, options),
  semaphore: (locks, name, options) => locks.semaphore(name, 1, options).acquire(),
  write: (locks, name, options) => locks.readWrite(name, options).write(),
}

/** Each owner takes one, then asks for the next one's: a ring. Gives what became of the second requests. */
async function ring(owners: number, kindOf: (index: number) => Take, options: (index: number) => AcquireOptions) {
  const bench = locksBench()
  const clients = await Promise.all(Array.from({ length: owners }, () => bench.client()))
  const leases = await Promise.all(
    clients.map((locks, index) => kindOf(index)(locks, `lock-${index}`, { owner: 'p', ...options(index) })),
  )
  const waits: Promise<Lease | LeaseholdError>[] = []
  for (const [index, locks] of clients.entries()) {
    const next = (index + 1) % owners
    waits.push(
      kindOf(next)(locks, `lock-${next}`, { owner: 'p', ...options(index) }).catch(
        async (error: LeaseholdError): Promise<LeaseholdError> => {
          await leases[index]?.release()
          return error
        },
      ),
    )
    await bench.advance(10)
  }
  return { bench, clients, waits }
}

describe('a deadlock', () => {
  const sizes = [2, 3, 4, 5]
  const mixes: Readonly<Record<string, readonly (keyof typeof kinds)[]>> = {
    lock: ['lock'],
    semaphore: ['semaphore'],
    write: ['write'],
    mixed: ['lock', 'semaphore', 'write'],
  }
  const planted = sizes.flatMap((size) => Object.entries(mixes).map(([mix, names]) => ({ size, mix, names })))

  test.each(planted)('of $size owners, $mix, is found within 2 s, with one victim', async ({ size, names }) => {
    const kindOf = (index: number) => kinds[names[index % names.length] ?? 'lock']
    const { bench, waits } = await ring(size, kindOf, () => ({}))
    await bench.advance(2000)
    const outcomes = await Promise.all(waits.map(async (wait) => ((await isSettled(wait)) ? await wait : undefined)))
    const victims = outcomes.filter((outcome): outcome is LeaseholdError => outcome instanceof Error)
    expect(victims).toHaveLength(1)
    const [victim] = victims
    expect(victim).toMatchObject({ code: 'DEADLOCK' })
    expect(victim?.cycle).toHaveLength(size)
    expect(new Set(victim?.cycle?.map(({ waitsFor }) => waitsFor)).size).toBe(size)
    expect(outcomes.at(-1), 'the youngest gives way').toBe(victim)
  })

  test('is resolved for all once the victim lets go', async () => {
    const { bench, waits } = await ring(
      4,
      () => kinds.lock,
      () => ({ ttl: '3s' }),
    )
    await bench.advance(2000)
    for (const wait of waits.slice(0, -1).toReversed()) {
      const lease = (await wait) as Lease
      expect(lease.held).toBe(true)
      break
    }
  })

  test('costs the one of lowest priority, wherever it stands in the cycle', async () => {
    for (const low of [0, 1, 2]) {
      const { bench, waits } = await ring(
        3,
        () => kinds.lock,
        (index) => ({ priority: index === low ? -5 : 0 }),
      )
      await bench.advance(2000)
      const settled = await Promise.all(waits.map(async (wait) => ((await isSettled(wait)) ? wait : undefined)))
      expect(settled.map((outcome) => outcome instanceof Error)).toEqual([0, 1, 2].map((index) => index === low))
      expect((settled[low] as LeaseholdError).message).toContain('waits for "lock-')
    }
  })

  test('through permits is found when every permit is held by somebody stuck', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    const [first] = [
      await one.semaphore('s', 2, { owner: 'p' }).acquire(),
      await other.semaphore('s', 2, { owner: 'q' }).acquire(),
    ]
    const waits: Promise<unknown>[] = []
    for (const [locks, owner] of [
      [one, 'p'],
      [other, 'q'],
    ] as const) {
      const wait = locks.semaphore('s', 2, { owner }).acquire()
      waits.push(wait.catch((error: unknown) => error))
      await advance(10)
    }
    await advance(2000)
    const settled = await Promise.all(waits.map((wait) => isSettled(wait)))
    expect(settled).toEqual([false, true])
    expect(await waits[1]).toMatchObject({ code: 'DEADLOCK' })
    await first.release()
    await waits[0]
  })

  test('of permits of which one belongs to somebody who gets on is none', async () => {
    const { client, advance } = locksBench()
    const [one, other, free] = [await client(), await client(), await client()]
    const semaphore = (locks: Locks, owner: string) => locks.semaphore('s', 3, { owner })
    await semaphore(one, 'p').acquire()
    await semaphore(other, 'q').acquire()
    const permit = await semaphore(free, 'r').acquire()
    const waits = [semaphore(one, 'p').acquire(), semaphore(other, 'q').acquire()]
    await advance(30_000)
    expect(await isSettled(Promise.race(waits))).toBe(false)
    await permit.release()
    await waits[0]
    for (const wait of waits) wait.catch(() => {})
  })

  test('of readers behind a writer that waits for one of them is found', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    const reader = await one.readWrite('a', { owner: 'p' }).read()
    const writing = other.readWrite('a', { owner: 'w' }).write()
    await advance(10)
    const again = one
      .readWrite('a', { owner: 'p' })
      .read()
      .catch((error: unknown) => error)
    await advance(2000)
    expect(await again).toMatchObject({ code: 'DEADLOCK' })
    await reader.release()
    await writing
  })

  test('of bodies inside bodies is found', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    const cross = (locks: Locks, first: string, second: string) =>
      locks.run(first, async () => {
        await nextTurn()
        await locks.run('between ' + first, () => locks.run(second, () => {}))
      })
    const both = Promise.allSettled([cross(one, 'a', 'b'), cross(other, 'b', 'a')])
    await advance(3000)
    const outcomes = (await both).map(({ status }) => status)
    expect(outcomes.toSorted()).toEqual(['fulfilled', 'rejected'])
  })

  test('of acquireAll with a body that takes the other way round is found', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    const crossing = one
      .run('b', async () => {
        const all = other.acquireAll(['a', 'b'])
        await advance(100)
        await one.run('a', () => {})
        await all
      })
      .catch((error: unknown) => error)
    await advance(3000)
    expect(await crossing).toMatchObject({ code: 'DEADLOCK' })
  })

  test('whose victim does not act costs the next one in order', async () => {
    const bench = locksBench()
    const [deaf, other] = [await bench.client({ deadlockDetection: false }), await bench.client()]
    await other.acquire('a', { owner: 'p' })
    await deaf.acquire('b', { owner: 'q' })
    const first = other.acquire('b', { owner: 'p' }).catch((error: unknown) => error)
    await bench.advance(100)
    const second = deaf.acquire('a', { owner: 'q', wait: '1h' }).catch((error: unknown) => error)
    await bench.advance(2000)
    expect(await isSettled(first)).toBe(false)
    await bench.advance(2000)
    expect(await first).toMatchObject({ code: 'DEADLOCK' })
    await deaf.close()
    await second
  })
})

describe('no deadlock', () => {
  test('is a queue, however long, nor an upgrade, nor what has no owner', async () => {
    const { client, advance } = locksBench()
    const [one, other] = [await client(), await client()]
    const first = await one.acquire('a', { owner: 'p' })
    const queue = ['q', 'r', 's'].map((owner) => other.acquire('a', { owner }))
    const reader = await one.readWrite('b', { owner: 'u' }).read()
    const second = await other.readWrite('b', { owner: 'v' }).read()
    const upgrading = reader.upgrade()
    await one.acquire('c')
    await other.acquire('d')
    const unknown = [one.acquire('d', { wait: '20s' }), other.acquire('c', { wait: '20s' })]
    const outcomes = Promise.allSettled(unknown)
    await advance(15_000)
    for (const wait of [...queue, upgrading, ...unknown]) expect(await isSettled(wait)).toBe(false)
    await second.release()
    await upgrading
    await first.release()
    await advance(10_000)
    expect(await outcomes).toMatchObject([{ reason: { code: 'TIMEOUT' } }, { reason: { code: 'TIMEOUT' } }])
    await other.close()
    await Promise.allSettled(queue)
  })

  test('is a lease that was handed to somebody else', async () => {
    const { client, advance } = locksBench()
    const [one, other, third] = [await client(), await client(), await client()]
    const proof = await (await one.acquire('x', { owner: 'p' })).handOff()
    const resumed = await third.resume(proof)
    const held = await other.acquire('y', { owner: 'q' })
    const waits = [one.acquire('y', { owner: 'p' }), other.acquire('x', { owner: 'q' })]
    await advance(10_000)
    expect(await isSettled(Promise.race(waits))).toBe(false)
    await resumed.release()
    await waits[1]
    await held.release()
    await waits[0]
  })

  test('is looked for when the client says so, or before half a second has passed', async () => {
    const bench = locksBench()
    let lists = 0
    bench.wrap = (driver) =>
      around(driver, {
        list: (query) => {
          lists += 1
          return driver.list(query)
        },
      })
    const [one, off] = [await bench.client(), await bench.client({ deadlockDetection: false })]
    const held = await one.acquire('a')
    // An owner that holds nothing is waited for by nobody.
    await one.acquire('b', { owner: 'q' })
    await off.acquire('c', { owner: 'p' })
    const waits = [off.acquire('a', { owner: 'p' }), one.acquire('a'), one.acquire('a', { owner: 'q' })]
    await bench.advance(499)
    expect(lists).toBe(0)
    await bench.advance(1)
    expect(lists).toBe(1)
    await held.release()
    for (const wait of waits) await (await wait).release()
    await bench.advance(10_000)
    expect(lists).toBe(1)
    await Promise.all([one.close(), off.close()])
    expect(bench.timers).toBe(0)
  })
})

describe('the order of locks', () => {
  test('taken both ways round is warned of once, with both places, if asked for', async () => {
    const { client } = locksBench()
    const warnings: string[] = []
    const logger = { debug() {}, info() {}, warn: (message: string) => void warnings.push(message) }
    const [careful, careless] = [await client({ warnLockOrder: true, logger }), await client({ logger })]
    for (const locks of [careful, careless]) {
      for (const [first, second] of [
        ['a', 'b'],
        ['b', 'c'],
        ['a', 'c'],
        ['c', 'a'],
        ['c', 'a'],
      ] as const) {
        await locks.run(first, () => locks.run(second, () => {}))
      }
    }
    expect(warnings).toHaveLength(1)
    expect(warnings[0]).toMatch(
      /"a" is taken while "c" is held, at .*deadlock.test.ts.*; the other way round, at .*deadlock.test.ts/,
    )
  })
})
