import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import type { Claim, LockDriver, Request, ClaimStatus } from '../../src/core/contract/driver.ts'
import { hashTagOf } from '../../src/drivers/redis/hash-tags.ts'
import { redis } from '../../src/drivers/redis/driver.ts'
import { claimOf } from '../support/claims.ts'
import { eventually } from '../support/eventually.ts'
import { RedisServer } from '../support/redis-server.ts'

const server = await RedisServer.start({ settings: { 'maxmemory-policy': 'noeviction' } })
let time = Date.now()
const driver = redis({ url: server.url, clockForTests: () => time })
const byRealTime = redis(server.url)

beforeEach(() => server.cli('FLUSHALL'))

afterAll(async () => {
  await Promise.all([driver.close(), byRealTime.close()])
  await server.stop()
})

const runner = { id: 'runner', incarnation: '1', host: 'here', pid: 1, client: 'test' }
const ttlMs = 10_000

function claim(key: string, id: string, wish: Partial<Claim> = {}): Request {
  return { op: 'claim', claim: claimOf(key, { id, ttlMs, runner, ...wish }) }
}

function release(key: string, id: string): Request {
  return { op: 'release', key, id }
}

/** As a client sends them: sorted by key. */
const keys = Array.from({ length: 300 }, (_, index) => `orders/${index}`).toSorted()

async function claimAll(id: string, over: LockDriver = driver): Promise<number[]> {
  return (await over.send(keys.map((key) => claim(key, id)))).map((status) => fenceOf(status))
}

async function releaseAll(id: string, over: LockDriver = driver): Promise<void> {
  const released = await over.send(keys.map((key) => release(key, id)))
  expect(released).toEqual(keys.map(() => ({ state: 'absent', reason: 'released' })))
}

function fenceOf(status: ClaimStatus | undefined): number {
  expect(status).toMatchObject({ state: 'held', ttlMs })
  return status?.state === 'held' ? status.fence : 0
}

describe('claims of one batch', () => {
  test('have fences above those that their keys had before, by the clock or without it', async () => {
    for (const over of [driver, byRealTime]) {
      let last = await claimAll('turn-0', over)
      for (let turn = 1; turn <= 5; turn += 1) {
        await releaseAll(`turn-${turn - 1}`, over)
        const fences = await claimAll(`turn-${turn}`, over)
        expect(fences.filter((fence, index) => fence <= (last[index] ?? 0))).toEqual([])
        last = fences
        // At times the clock stands still, and goes back.
        if (turn > 2) time += turn === 4 ? -5000 : 1000
      }
      await releaseAll('turn-5', over)
    }
  })

  test('are stored as they were answered', async () => {
    const fences = await claimAll('holder')
    const { keys: listed } = await driver.list({ limit: 1000 })
    const stored = new Map(listed.map(({ key, claims }) => [key, claims.map(({ id, fence }) => ({ id, fence }))]))
    expect(keys.map((key) => stored.get(key))).toEqual(fences.map((fence) => [{ id: 'holder', fence }]))
  })

  test('go on from a fence that is past the clock, and lift no other', async () => {
    const [lifted] = keys as [string]
    const floor = time * 1000 + 1e9
    await driver.send([claim(lifted, 'first')])
    await driver.send([{ op: 'renew', key: lifted, id: 'first', ttlMs, fenceFloor: floor }])
    await driver.send([release(lifted, 'first')])
    const fences = await claimAll('second')
    expect(keys.filter((_, index) => (fences[index] ?? 0) > floor)).toEqual(
      keys.filter((key) => hashTagOf(key) === hashTagOf(lifted)),
    )
  })

  test('of one hash tag go on from a fence that is past the clock', async () => {
    const [lifted] = keys as [string]
    const alike = keys.filter((key) => hashTagOf(key) === hashTagOf(lifted))
    expect(alike.length).toBeGreaterThan(1)
    let last = time * 1000 + 1e9
    await driver.send([claim(lifted, 'turn-0')])
    await driver.send([{ op: 'renew', key: lifted, id: 'turn-0', ttlMs, fenceFloor: last }])
    await driver.send([release(lifted, 'turn-0')])
    for (const id of ['turn-1', 'turn-2']) {
      const fences = (await driver.send(alike.map((key) => claim(key, id)))).map((status) => fenceOf(status))
      expect(Math.min(...fences)).toBeGreaterThan(last)
      last = Math.max(...fences)
      await driver.send(alike.map((key) => release(key, id)))
    }
  })

  test('begin above the clock whatever somebody has set the counter to', async () => {
    const counter = `leasehold:{${hashTagOf('a')}}fence`
    for (const set of ['5', '0', String(time * 1000)]) {
      await server.cli('SET', counter, set)
      for (const id of ['one', 'two']) {
        const fence = fenceOf((await driver.send([claim('a', id)]))[0])
        expect(fence).toBeGreaterThan(Number(set))
        expect(fence).toBeGreaterThanOrEqual(time * 1000)
        expect(await server.cli('GET', counter)).toBe(String(fence))
        await driver.send([release('a', id)])
      }
    }
  })

  test('are told apart: one that is held already is waited for', async () => {
    const [taken] = keys as [string]
    const before = fenceOf((await driver.send([claim(taken, 'before')]))[0])
    const statuses = await driver.send(keys.map((key) => claim(key, 'after')))
    expect(statuses.map(({ state }) => state)).toEqual(keys.map((key) => (key === taken ? 'waiting' : 'held')))
    const [, next] = await driver.send([release(taken, 'before'), claim(taken, 'after')])
    expect(fenceOf(next)).toBeGreaterThan(before)
  })
})

describe('renewals of one batch', () => {
  test('keep fence and runner, and are stored with the new ttl', async () => {
    const fences = await claimAll('holder')
    time += 1000
    const renewed = await driver.send(keys.map((key) => ({ op: 'renew', key, id: 'holder', ttlMs: 20_000 })))
    expect(renewed).toEqual(fences.map((fence) => ({ state: 'held', fence, ttlMs: 20_000 })))
    const { keys: listed } = await driver.list({ limit: 1000 })
    const claims = listed.flatMap((key) => key.claims)
    expect(claims).toHaveLength(keys.length)
    const asRenewed = { ttlMs: 20_000, enteredAt: time - 1000, acquiredAt: time - 1000, lastHeartbeat: time, runner }
    for (const one of claims) {
      expect(one).toMatchObject({ ...asRenewed, id: 'holder', renewalCount: 1, expiresAt: time + 20_000 })
    }
    const lives = await Promise.all(
      keys.slice(0, 3).map((key) => server.cli('PTTL', `leasehold:{${hashTagOf(key)}}k:${key}`)),
    )
    // One ttl longer than the lease, and the hour that a test's clock is given.
    for (const life of lives) expect(Number(life)).toBeGreaterThan(3_600_000 + 2 * ttlMs)
  })

  test('that come too late revive nothing', async () => {
    await claimAll('holder')
    time += ttlMs
    const renewed = await driver.send(keys.map((key) => ({ op: 'renew', key, id: 'holder', ttlMs })))
    expect(renewed).toEqual(keys.map(() => ({ state: 'absent', reason: 'expired' })))
  })

  test('under a clock that was set back let nobody hold from a time to come', async () => {
    await claimAll('holder')
    time -= 5000
    await driver.send(keys.map((key) => ({ op: 'renew', key, id: 'holder', ttlMs })))
    const claims = (await driver.list({ limit: 1000 })).keys.flatMap((key) => key.claims)
    expect(claims.map(({ acquiredAt, expiresAt }) => [acquiredAt, expiresAt])).toEqual(
      keys.map(() => [time, time + ttlMs]),
    )
  })

  test('by another client make it the one that is told what becomes of them', async () => {
    const other = redis({ url: server.url, clockForTests: () => time })
    await other.open()
    const received: string[] = []
    other.listen?.((key, _, notification) =>
      received.push(`${key} ${notification === 'poll' ? notification : notification.state}`),
    )
    const fences = await driver.send([claim('a', 'holder'), claim('b', 'holder')])
    await other.send(['a', 'b'].map((key) => ({ op: 'renew', key, id: 'holder', ttlMs })))
    await driver.send([{ op: 'evict', key: 'a', fence: fenceOf(fences[0]), reason: 'stuck' }])
    await eventually(() => received.length > 0, 'The notification')
    expect(received).toEqual(['a absent'])
    await other.close()
  })
})

describe('what is not plain', () => {
  const alone = (request: Request): Request[] => [request]
  const inABatch = (request: Request): Request[] => [request, release('zzz', 'nobody')]

  test.each([
    { how: 'alone', sent: alone },
    { how: 'in a batch', sent: inABatch },
  ])('an id that another begins with is not mistaken for it, $how', async ({ sent }) => {
    await driver.send([claim('a', 'holder-of-it')])
    const renewal: Request = { op: 'renew', key: 'a', id: 'holder', ttlMs }
    for (const request of [release('a', 'holder'), renewal, release('a', 'holder-of-it-all')]) {
      expect((await driver.send(sent(request)))[0]).toEqual({ state: 'absent', reason: 'unknown' })
    }
    expect((await driver.send(sent(release('a', 'holder-of-it'))))[0]).toMatchObject({ reason: 'released' })
  })

  test.each([
    { what: 'an id of two lines', id: 'one\nanother', wish: {} },
    { what: 'an id of more bytes than characters', id: 'é'.repeat(40), wish: {} },
    { what: 'a ttl of eleven digits', id: 'holder', wish: { ttlMs: 10_000_000_000 } },
  ])('$what is kept as it is, alone and in a batch', async ({ id, wish }) => {
    for (const sent of [alone, inABatch]) {
      const lease = { ttlMs, ...wish }
      // Nobody is promised more than there is.
      const held = { state: 'held', ttlMs: Math.floor(lease.ttlMs) }
      expect((await driver.send(sent(claim('a', id, wish))))[0]).toMatchObject(held)
      expect((await driver.send(sent({ op: 'renew', key: 'a', id, ...lease })))[0]).toMatchObject(held)
      const [listed] = (await driver.list({ key: 'a' })).keys
      expect(listed?.claims).toMatchObject([{ id, ...lease, renewalCount: 1, expiresAt: time + lease.ttlMs }])
      expect((await driver.send(sent(release('a', id))))[0]).toEqual({ state: 'absent', reason: 'released' })
    }
  })
})

describe('requests of one batch', () => {
  test('about one key are carried out one after the other', async () => {
    const statuses = await driver.send([
      claim('a', '1'),
      release('a', '1'),
      release('a', '1'),
      claim('a', '2'),
      claim('b', '3'),
      release('a', '2'),
      claim('a', '4'),
    ])
    expect(statuses.map(({ state }) => state)).toEqual(['held', 'absent', 'absent', 'held', 'held', 'absent', 'held'])
    expect(statuses[1]).toMatchObject({ reason: 'released' })
    expect(statuses[2]).toMatchObject({ reason: 'unknown' })
    const [first, second, third] = [0, 3, 6].map((place) => fenceOf(statuses[place])) as [number, number, number]
    expect(first).toBeLessThan(second)
    expect(second).toBeLessThan(third)
  })

  test('let go of locks in a full memory, whatever comes after that', async () => {
    await driver.send(['a', 'b', 'c'].map((key) => claim(key, 'holder')))
    await server.cli('CONFIG', 'SET', 'maxmemory', '1')
    await driver.send([...['a', 'b', 'c'].map((key) => release(key, 'holder')), claim('d', 'late'), claim('e', 'late')])
    await server.cli('CONFIG', 'SET', 'maxmemory', '0')
    const next = await driver.send(['a', 'b', 'c'].map((key) => claim(key, 'next')))
    expect(next.map(({ state }) => state)).toEqual(['held', 'held', 'held'])
  })
})
