import { execFileSync } from 'node:child_process'
import { copyFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { Claim, LockDriver, Request, ClaimStatus } from '../../src/core/contract/driver.ts'
import { hashTagOf } from '../../src/drivers/redis/hash-tags.ts'
import { redis } from '../../src/drivers/redis/driver.ts'
import { ask, claim, claimOf, release, renew, fenceOf, claiming } from '../support/claims.ts'
import { eventually } from '../support/eventually.ts'
import { opened } from '../support/opened.ts'
import { RedisServer } from '../support/redis-server.ts'
import { ServerClock } from '../support/server-clock.ts'

const clock = new ServerClock()
const server = await RedisServer.start({
  settings: { 'maxmemory-policy': 'noeviction' },
  environment: clock.environment,
})
const hourMs = 3_600_000

beforeEach(async () => {
  clock.set(0)
  await server.cli('FLUSHALL')
})

afterAll(async () => {
  await server.stop()
  clock.remove()
})

/** Keys that share a counter, in the order in which a client sends them. */
const alike = Array.from({ length: 2000 }, (_, index) => `orders/${index}`)
  .filter((key) => hashTagOf(key) === hashTagOf('orders/0'))
  .toSorted()
const [first = '', second = '', third = ''] = alike
const last = alike.at(-1) ?? ''
const tag = `leasehold:{${hashTagOf(first)}}`

function releasing({ key, id }: Claim): Request {
  return { op: 'release', key, id }
}

/** Makes the counter run an hour ahead of the clock: a clock that was wrong and has been set right. */
async function letTheClockFallBehind(driver: LockDriver): Promise<number> {
  clock.set(hourMs)
  const early = claimOf(first)
  const fence = fenceOf(await claim(driver, early))
  clock.set(0)
  await release(driver, early)
  return fence
}

async function firstOf(driver: LockDriver, requests: readonly Request[]): Promise<ClaimStatus> {
  return (await driver.send(requests))[0] ?? { state: 'unknown', error: 'no answer' }
}

/** Every fence that a key has given so far, as its holders were told or the store has it. */
async function fencesOf(driver: LockDriver, key: string): Promise<number[]> {
  const { keys } = await driver.list({ key })
  return keys.flatMap(({ claims }) => claims.map(({ fence }) => fence)).filter((fence) => fence > 0)
}

describe('under a clock that is behind the counter, a call of which a request fails', () => {
  const ways: Record<string, (key: string) => readonly Request[]> = {
    'a plain claim of a key that comes twice': (key) => [claiming(claimOf(key)), claiming(claimOf(key))],
    'a shared claim': (key) => [claiming(claimOf(key, { mode: 'shared' }))],
    'a claim with a priority': (key) => [claiming(claimOf(key, { priority: 1 }))],
    'a claim that does not wait': (key) => [claiming(claimOf(key, { wait: false, priority: 1 }))],
  }

  test.each(Object.entries(ways))('mints no fence twice: %s', async (_, requestsFor) => {
    const driver = await opened(redis(server.url))
    const ahead = await letTheClockFallBehind(driver)
    await server.cli('RPUSH', `${tag}k:${last}`, 'not ours')
    const requests = [...requestsFor(second), claiming(claimOf(last)), claiming(claimOf(last))]
    const statuses = await driver.send(requests)
    expect(statuses.at(-1)).toMatchObject({ state: 'unknown' })
    const given = await fencesOf(driver, second)
    expect(Math.min(...given)).toBeGreaterThan(ahead)
    await server.cli('DEL', `${tag}k:${second}`)
    expect(fenceOf(await claim(driver, claimOf(second)))).toBeGreaterThan(Math.max(...given))
  })

  test('mints no fence twice: a waiter that a release lets in', async () => {
    const driver = await opened(redis(server.url))
    await letTheClockFallBehind(driver)
    const [holder, waiter, next] = [claimOf(second), claimOf(second), claimOf(second)]
    await claim(driver, holder)
    for (const waiting of [waiter, next]) await claim(driver, waiting)
    await server.cli('RPUSH', `${tag}k:${last}`, 'not ours')
    await driver.send([releasing(holder), claiming(claimOf(last)), claiming(claimOf(last))])
    const fence = fenceOf(await renew(driver, waiter))
    await release(driver, waiter)
    expect(fenceOf(await renew(driver, next))).toBeGreaterThan(fence)
  })

  test('mints no fence twice: a floor that a renewal sets', async () => {
    const driver = await opened(redis(server.url))
    const ahead = await letTheClockFallBehind(driver)
    const holder = claimOf(second)
    await claim(driver, holder)
    await server.cli('RPUSH', `${tag}k:${last}`, 'not ours')
    const floor = ahead + 1000
    const { key, id, ttlMs } = holder
    await driver.send([{ op: 'renew', key, id, ttlMs, fenceFloor: floor }, claiming(claimOf(last))])
    expect(fenceOf(await renew(driver, holder))).toBe(floor)
    await release(driver, holder)
    expect(fenceOf(await claim(driver, claimOf(second)))).toBeGreaterThan(floor)
  })

  test('leaves the counter at the last fence that was given', async () => {
    const driver = await opened(redis(server.url))
    await letTheClockFallBehind(driver)
    const statuses = await driver.send(
      alike.flatMap((key) => [claiming(claimOf(key, { priority: 1 })), claiming(claimOf(key, { wait: false }))]),
    )
    const fences = statuses.filter(({ state }) => state === 'held').map((status) => fenceOf(status))
    expect(new Set(fences).size).toBe(alike.length)
    expect(await server.cli('GET', `${tag}fence`)).toBe(String(Math.max(...fences)))
  })
})

describe('every grant has a fence of at least the wall clock', () => {
  /** The wall clock of the server in microseconds. */
  async function wall(): Promise<number> {
    const [seconds, microseconds] = (await server.cli('TIME')).split('\n').map(Number) as [number, number]
    return seconds * 1_000_000 + microseconds
  }

  const ways: Record<string, (driver: LockDriver) => Promise<ClaimStatus>> = {
    'alone, on a free key': (driver) => claim(driver, claimOf(first)),
    'alone, by the rule': (driver) => claim(driver, claimOf(first, { priority: 2 })),
    'in a batch, plain': (driver) => firstOf(driver, [claiming(claimOf(first)), claiming(claimOf(second))]),
    'in a batch of several hash tags': (driver) =>
      firstOf(driver, [claiming(claimOf('orders/0')), claiming(claimOf('orders/1'))]),
    'in a batch, by the rule': (driver) =>
      firstOf(driver, [claiming(claimOf(first, { mode: 'shared' })), claiming(claimOf(second))]),
    'by a release, alone': async (driver) => {
      const [holder, waiter] = [claimOf(first), claimOf(first)]
      await claim(driver, holder)
      await claim(driver, waiter)
      await claim(driver, claimOf(first))
      await atLeastAMillisecond()
      await release(driver, holder)
      return renew(driver, waiter)
    },
    'by a conversion': async (driver) => {
      const shared = claimOf(first, { mode: 'shared' })
      await claim(driver, shared)
      await atLeastAMillisecond()
      return claim(driver, claimOf(first, { replaces: shared.id }))
    },
    'by force': async (driver) => {
      await claim(driver, claimOf(first))
      await atLeastAMillisecond()
      return claim(driver, claimOf(first, { evict: 'all' }))
    },
  }
  let before = 0

  async function atLeastAMillisecond(): Promise<void> {
    before = await wall()
    await eventually(async () => (await wall()) > before + 1000, 'A millisecond')
  }

  test.each(Object.entries(ways))('%s', async (_, grant) => {
    const driver = await opened(redis(server.url))
    before = await wall()
    expect(fenceOf(await grant(driver))).toBeGreaterThanOrEqual(before)
  })
})

describe('a server that comes back with an older copy', () => {
  const copies = { 'of its snapshot': 'rdb', 'of its append-only file': 'aof' }

  test.each(Object.entries(copies))('%s mints no lower fence', async (_, kind) => {
    const settings: Record<string, string> = kind === 'aof' ? { appendonly: 'yes', appendfsync: 'always' } : {}
    const restored = await RedisServer.start({ settings })
    onTestFinished(() => restored.stop())
    const driver = await opened(redis(restored.url))
    const [early, later] = [claimOf('a'), claimOf('a')]
    await claim(driver, early)
    await release(driver, early)
    if (kind === 'rdb') await restored.cli('SAVE')
    const files = kind === 'aof' ? 'appendonlydir' : 'dump.rdb'
    const older = path.join(restored.folder, 'older')
    execFileSync('cp', ['-r', path.join(restored.folder, files), older])
    await claim(driver, later)
    const batch = ['b', 'c'].map((key) => claimOf(key))
    const given = [fenceOf(await renew(driver, later))]
    for (const status of await driver.send(batch.map((wanted) => claiming(wanted)))) given.push(fenceOf(status))
    await restored.kill()
    if (kind === 'aof')
      execFileSync('sh', ['-c', `rm -r "$1" && mv "$2" "$1"`, 'sh', path.join(restored.folder, files), older])
    else copyFileSync(older, path.join(restored.folder, files))
    await restored.start()
    const again = await eventually(async () => {
      const statuses = await driver.send(['a', 'b', 'c'].map((key) => claiming(claimOf(key)))).catch(() => [])
      return statuses[0]?.state === 'held' && statuses
    }, 'An answer of Redis')
    expect(Math.min(...again.map((status) => fenceOf(status)))).toBeGreaterThan(Math.max(...given))
  })
})

describe('one bad key in a batch', () => {
  const [before, bad, after] = [first, second, third]
  const record = `${tag}k:${bad}`
  const spoilt: Record<string, () => Promise<unknown>> = {
    'that is no string': () => server.cli('RPUSH', record, 'not ours'),
    'whose record is garbage': () => server.cli('SET', record, '{"holder": '),
    'whose record is cut short': () => server.cli('SET', record, 'L 1794818867591187 17948188'),
    'whose record is half of a list': () => server.cli('SET', record, '\u0095'),
    'whose queue is no queue': async () => {
      const driver = await opened(redis(server.url))
      const holder = claimOf(bad, { mode: 'shared' })
      await claim(driver, holder)
      await claim(driver, claimOf(bad))
      await server.cli('DEL', `${tag}q:${bad}`)
      await server.cli('SET', `${tag}q:${bad}`, 'not ours')
      await release(driver, holder)
    },
  }

  test.each(Object.entries(spoilt))('%s fails its own requests and no other', async (_, spoil) => {
    const driver = await opened(redis(server.url))
    const [one, other] = [claimOf(before), claimOf(after)]
    const [held, gone] = [claimOf(`${before}/held`), claimOf(`${before}/released`)]
    await driver.send([claiming(held), claiming(gone)])
    await spoil()
    const requests: Request[] = [
      claiming(one),
      { op: 'renew', key: held.key, id: held.id, ttlMs: 60_000 },
      releasing(gone),
      claiming(claimOf(bad, { mode: 'shared' })),
      { op: 'renew', key: bad, id: 'nobody', ttlMs: 60_000 },
      releasing(claimOf(bad)),
      { op: 'evict', key: bad, fence: 1, reason: 'test' },
      claiming(other),
    ]
    const statuses = await driver.send(requests)
    expect(statuses.map(({ state }) => state)).toEqual([
      'held',
      'held',
      'absent',
      'unknown',
      'unknown',
      'unknown',
      'unknown',
      'held',
    ])
    expect(statuses[3]).toMatchObject({ error: { code: 'UNAVAILABLE', reason: 'foreign' } })
    for (const wanted of [one, other, held]) expect(await renew(driver, wanted)).toMatchObject({ state: 'held' })
  })

  test('whose counter is garbage takes the clock for it', async () => {
    const driver = await opened(redis(server.url))
    await server.cli('SET', `${tag}fence`, 'not a number')
    const statuses = await driver.send([claiming(claimOf(first)), claiming(claimOf('orders/1'))])
    expect(statuses).toMatchObject([{ state: 'held' }, { state: 'held' }])
  })

  test.each(['nan', 'abc', '', '9e15', '1e300', 'inf', `${Date.now()}999.5`])(
    'whose counter is "%s" has fences that are whole and grow, alone and beside others',
    async (counter) => {
      const driver = await opened(redis(server.url))
      const fences: number[] = []
      for (const mode of ['exclusive', 'shared'] as const) {
        for (const others of [[], [claiming(claimOf('orders/1'))]]) {
          await server.cli('SET', `${tag}fence`, counter)
          const wanted = claimOf(first, { mode })
          const statuses = await driver.send([claiming(wanted), ...others])
          for (const status of statuses) expect(fenceOf(status)).toSatisfy(Number.isSafeInteger)
          fences.push(fenceOf(statuses[0]))
          await release(driver, wanted)
          await server.cli('DEL', `leasehold:{${hashTagOf('orders/1')}}k:orders/1`)
        }
      }
      expect(fences).toEqual([...new Set(fences)].toSorted((one, other) => one - other))
    },
  )

  test('whose fence is none fails alone when it is renewed: nobody else is told that he holds', async () => {
    const driver = await opened(redis(server.url))
    const [held, busy] = [claimOf(bad), claimOf(after)]
    for (const wanted of [held, busy]) await claim(driver, wanted)
    await server.cli('SETRANGE', record, '2', 'gggggggggggggggg')
    const { key, id, ttlMs } = held
    const statuses = await driver.send([{ op: 'renew', key, id, ttlMs }, claiming(claimOf(after, { wait: false }))])
    expect(statuses).toMatchObject([
      { state: 'unknown', error: { reason: 'foreign' } },
      { state: 'absent', reason: 'refused' },
    ])
  })

  test.each([false, true])('hides no other from a listing, if its runner cannot be read', async (waits) => {
    const driver = await opened(redis(server.url))
    const [holder, waiter] = [claimOf(bad), claimOf(bad)]
    for (const wanted of [claimOf(before), holder, ...(waits ? [waiter] : [])]) await claim(driver, wanted)
    // Cut in the middle of its runner, and an array that is the record of no claim.
    if (waits) await server.cli('HSET', `${tag}w:${bad}`, waiter.id, '')
    else await server.cli('SET', record, (await server.cli('GET', record)).slice(0, 150), 'KEEPTTL')
    const { keys } = await driver.list({})
    expect(keys.map(({ key }) => key)).toContain(before)
    await expect(driver.list({ key: bad })).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'foreign' })
  })

  // An empty array, 25 times true, an array of five: each is MessagePack.
  test.each([[0x90], [0xdc, 0, 25, ...Array.from({ length: 25 }, () => 0xc3)], [0x95, 1, 1, 1, 1, 0x7f]])(
    'one waiter that is no record of ours is passed over: the queue moves on',
    async (...bytes) => {
      const driver = await opened(redis(server.url))
      const [holder, spoiltWaiter, waiter, more] = [claimOf(bad), claimOf(bad), claimOf(bad), claimOf(bad)]
      for (const wanted of [holder, spoiltWaiter, waiter, more]) await claim(driver, wanted)
      const write = `return redis.call('HSET', KEYS[1], ARGV[1], string.char(${bytes.join(',')}))`
      await server.cli('EVAL', write, '1', `${tag}w:${bad}`, spoiltWaiter.id)
      expect(await release(driver, holder)).toEqual({ state: 'absent', reason: 'released' })
      expect(await renew(driver, waiter)).toMatchObject({ state: 'held' })
    },
  )

  test('one waiter that cannot be read is passed over: the queue moves on', async () => {
    const driver = await opened(redis(server.url))
    const [holder, spoiltWaiter, waiter, more] = [claimOf(bad), claimOf(bad), claimOf(bad), claimOf(bad)]
    for (const wanted of [holder, spoiltWaiter, waiter, more]) await claim(driver, wanted)
    await server.cli('HSET', `${tag}w:${bad}`, spoiltWaiter.id, 'garbage')
    expect(await release(driver, holder)).toEqual({ state: 'absent', reason: 'released' })
    expect(await renew(driver, waiter)).toMatchObject({ state: 'held' })
    await ask(driver, releasing(waiter))
    expect(await renew(driver, more)).toMatchObject({ state: 'held' })
  })

  test('a full memory refuses claims and lets the releases beside them through', async () => {
    const driver = await opened(redis(server.url))
    const held = [claimOf(second), claimOf(third)]
    await driver.send(held.map((wanted) => claiming(wanted)))
    await server.cli('CONFIG', 'SET', 'maxmemory', '1')
    onTestFinished(async () => void (await server.cli('CONFIG', 'SET', 'maxmemory', '0')))
    const statuses = await driver.send([
      claiming(claimOf(first)),
      claiming(claimOf(first)),
      ...held.map((wanted) => releasing(wanted)),
    ])
    expect(statuses[0]).toMatchObject({ state: 'unknown', error: { reason: 'full' } })
    expect(statuses.slice(2)).toEqual(held.map(() => ({ state: 'absent', reason: 'released' })))
  })
})
