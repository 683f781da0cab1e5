import { afterEach, describe, expect, test } from 'vitest'
import { byteRange, connect, createLocks, type Locks } from '../../src/index.ts'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { quorum } from '../../src/drivers/quorum/driver.ts'
import { faulty } from '../../src/testing/index.ts'
import { Cast } from './quorum/cast.ts'

describe('locks on a quorum', () => {
  const opened: Locks[] = []
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((locks) => locks.close()))
  })

  async function open(names: readonly string[]): Promise<Locks> {
    const driver = quorum(
      names.map((name) => memory({ name })),
      { votesAfter: 0 },
    )
    const locks = await createLocks({ driver, allowForce: true })
    opened.push(locks)
    return locks
  }

  test('are taken, shown, verified and given back like any others', async () => {
    const locks = await open(['locks-a', 'locks-b', 'locks-c'])
    const lease = await locks.acquire('report', { ttl: '5s' })
    expect(await locks.tryAcquire('report')).toBeNull()
    expect(await locks.inspect('report')).toMatchObject({ holders: [{ fence: lease.fence }], waiters: [] })
    expect(await locks.verify(lease.toJSON(), 'report')).toMatchObject({ fence: lease.fence })
    await lease.release()
    expect(await locks.inspect('report')).toBeNull()
    await expect(locks.verify(lease.toJSON(), 'report')).rejects.toMatchObject({ code: 'NOT_HELD' })
  })

  test.each([
    ['by a client of the same stores', ['a', 'b', 'c'], {}],
    ['while one of them is dead', ['a', 'b'], {}],
    ['by one that would wait for a moment', ['a', 'b', 'c'], { wait: 30 }],
    ['by one that tries several times', ['a', 'b', 'c'], { wait: 30, retry: { attempts: 3, min: 1, max: 5 } }],
  ] as const)('that somebody else holds are null to tryAcquire, and no error: %s', async (how, alive, options) => {
    const nodes = (): LockDriver[] =>
      ['a', 'b', 'c'].map((letter) => {
        const driver = memory({ name: `${how} ${letter}` })
        return (alive as readonly string[]).includes(letter) ? driver : faulty(driver, { reject: 1 })
      })
    const clients = [nodes(), nodes()].map((drivers) => createLocks({ driver: quorum(drivers, { votesAfter: 0 }) }))
    const [one, other] = await Promise.all(clients)
    if (one === undefined || other === undefined) throw new Error('There are two.')
    opened.push(one, other)
    await one.acquire('report', { ttl: '5s' })
    expect(await other.tryAcquire('report', options)).toBeNull()
    await expect(other.acquire('report', { onConflict: 'fail' })).rejects.toMatchObject({ code: 'HELD' })
  })

  test('that nobody got, as each of three has one vote, are null to all', async () => {
    const cast = new Cast()
    for (const place of [1, 2, 3]) await cast.holdOn(place, `on ${place}`, { ttlMs: 10_000 })
    const environment = cast.world.environment()
    const driver = quorum(
      cast.stores.map((store) => store.link()),
      { votesAfter: 0, environment },
    )
    const locks = await createLocks({ driver, environment })
    const tried = locks.tryAcquire('x')
    await cast.world.run(tried)
    expect(await tried).toBeNull()
    await cast.world.run(locks.close())
  })

  test('can be evicted: the holder hears of it with its next renewal', async () => {
    const locks = await open(['evict-a', 'evict-b', 'evict-c'])
    const lease = await locks.acquire('report', { ttl: '5s' })
    expect(await locks.evict('report', { reason: 'stuck' })).toBe(1)
    await expect(lease.renew()).rejects.toMatchObject({ code: 'NOT_HELD' })
    expect(lease.held).toBe(false)
  })

  test('are waited for, and passed on when the holder lets go', async () => {
    const names = ['wait-a', 'wait-b', 'wait-c']
    const [one, other] = [await open(names), await open(names)]
    const first = await one.acquire('report')
    const second = other.acquire('report', { wait: '5s' })
    await first.release()
    expect((await second).fence).toBeGreaterThan(first.fence)
  })

  test.each([
    ['byte ranges', byteRange(7, 0, 10), {}],
    ['preempting', 'report', { onConflict: 'preempt' }],
    ['priorities', 'report', { priority: 5 }],
  ] as const)('cannot do %s, and say so', async (_name, scope, options) => {
    const locks = await open(['cannot-a', 'cannot-b', 'cannot-c'])
    await expect((async () => locks.acquire(scope, options))()).rejects.toMatchObject({ code: 'UNSUPPORTED' })
  })
})

describe('a URL', () => {
  test('names the stores of a quorum, which do not vote as long as they may have forgotten something', async () => {
    const locks = await connect('quorum:memory:url-a,memory:url-b,memory:url-c')
    await expect(locks.tryAcquire('report')).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'no-majority' })
    await locks.close()
  })

  test.each([
    ['quorum:memory:a,memory:b', 'two stores'],
    ['quorum:memory:a,memory:b,quorum:memory:c', 'a quorum in a quorum'],
    ['quorum:', 'nothing'],
    ['quorum:memory:a,memory:b,memory:c,?votesafter=0', 'an option that does not exist'],
    ['quorum:memory:a,memory:b,memory:c,?votesAfter=soon', 'an option that makes no sense'],
    ['quorum:memory:a,memory:b,memory:c,?drift=', 'an option without a value'],
    ['quorum:memory:a,memory:b,memory:c,?drift=0.1&drift=0.2', 'an option that is there twice'],
    ['quorum:memory:a,memory:b,memory:c,?environment=mine', 'an option that is for programs'],
    ['quorum:memory:a,memory:b,nosuch://c', 'a store that does not exist'],
  ])('%s is refused: %s', async (url) => {
    await expect(connect(url)).rejects.toMatchObject({ code: 'INVALID' })
  })

  test('with a store of this thread cannot have a heartbeat thread', async () => {
    const connecting = connect('quorum:memory:a,memory:b,memory:c', { heartbeatThread: true })
    await expect(connecting).rejects.toMatchObject({ code: 'INVALID' })
  })
})

describe('clients that split the votes', () => {
  test('all get their turn: they try again at different times', async () => {
    const cast = new Cast()
    const { world } = cast
    let turns = 0
    let attempts = 0
    const play = async (): Promise<void> => {
      const delayMs = (): number => world.between(1, 8)
      const ask = await cast.driver([{ delayMs }, { delayMs }, { delayMs }])
      const locks = await createLocks({ driver: ask.driver, environment: world.environment() })
      locks.on('acquired', (event) => (attempts += event.attempts))
      for (let turn = 0; turn < 10; turn += 1) {
        const lease = await locks.acquire('report', { ttl: 1000 })
        await world.wait(5)
        await lease.release()
        turns += 1
      }
      await locks.close()
    }
    await world.run(Promise.all([play(), play(), play(), play(), play()]))
    expect(turns).toBe(50)
    // Each turn takes about 25 ms, holding and two round trips: little is lost to votes that were split.
    expect(world.now).toBeLessThan(4000)
    expect(attempts).toBeLessThan(400)
  })
})
