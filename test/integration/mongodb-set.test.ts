import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { MongoClient } from 'mongodb'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Claim, LockDriver, ClaimStatus } from '../../src/core/contract/driver.ts'
import { mongodb, type MongodbOptions, type MongoSource } from '../../src/drivers/mongodb/driver.ts'
import { createLocks, type Locks } from '../../src/index.ts'
import { conformance } from '../../src/testing/index.ts'
import { claim, claimOf, release, renew, fenceOf, untilAnswered } from '../support/claims.ts'
import { eventually } from '../support/eventually.ts'
import { clientOf, withinSeconds } from '../support/mongo-client.ts'
import { mongoHarness } from '../support/mongo-harness.ts'
import { againIfItFell } from '../support/mongo-falls.ts'
import { MongoReplicaSet, polling } from '../support/mongo-server.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'
import { expectRightHistory, type RunOptions } from './history/run.ts'

const set = await MongoReplicaSet.start()
const client = clientOf(set)
const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup()
})

const retry = againIfItFell
beforeEach(async () => {
  await set.primary()
})

describe('three servers', { retry }, () => {
  conformance('a mongodb replica set', mongoHarness(client, { database: 'conformance' }))
})

async function open(options: MongodbOptions = {}, source: MongoSource = set.url): Promise<LockDriver> {
  const driver = mongodb(source, { database: 'faults', ...options })
  cleanups.push(() => driver.close())
  await driver.open()
  return driver
}

async function locksOn(driver: LockDriver): Promise<Locks> {
  const locks = await createLocks({ driver })
  cleanups.push(() => locks.close())
  return locks
}

describe('closing', { retry }, () => {
  const makers = [
    ['a URL', (url: string): MongoSource => url],
    [
      'a client',
      (url: string): MongoSource => {
        const own = new MongoClient(url)
        cleanups.push(() => own.close())
        return own
      },
    ],
  ] as const

  test.each(makers)('ends though the server it listens to has fallen silent, over %s', async (_, make) => {
    const { port } = await set.primary()
    const proxy = await TcpProxy.start({ port })
    cleanups.push(() => proxy.stop())
    const url = `mongodb://127.0.0.1:${proxy.port}/?directConnection=true&${polling}&heartbeatFrequencyMS=30000`
    const driver = await open({ collection: 'closing' }, make(url))
    cleanups.push(async () => proxy.resume())
    await untilAnswered(() => claim(driver, claimOf('a')), 60_000)
    const waiting = claimOf('a')
    await untilAnswered(() => claim(driver, waiting), 60_000)
    proxy.pause()
    await driver.close()
  })
})

describe('notifications', { retry }, () => {
  test('reaches a waiter in another process by the change stream, with its fence', async () => {
    const [holder, waiter] = [await open({ collection: 'notifications' }), await open({ collection: 'notifications' })]
    const told = new Map<string, ClaimStatus>()
    waiter.listen?.((_key, id, notification) => void (notification !== 'poll' && told.set(id, notification)))
    const [first, second] = [claimOf('a'), claimOf('a')]
    await claim(holder, first)
    expect(await claim(waiter, second)).toMatchObject({ state: 'waiting' })
    await release(holder, first)
    const status = await eventually(() => told.get(second.id), 'notifications')
    expect(fenceOf(status)).toBe(fenceOf(await claim(waiter, second)))
  })

  test('comes late where the collection was dropped under the stream, and comes', async () => {
    const driver = await open({ collection: 'dropped' })
    const holder = await locksOn(driver)
    const waiter = await locksOn(await open({ collection: 'dropped' }))
    await (await holder.acquire('a')).release()
    await (await waiter.acquire('a')).release()
    await client.db('faults').collection('dropped').drop(withinSeconds)
    const lease = await holder.acquire('a')
    const waiting = waiter.acquire('a', { wait: '30s' })
    await eventually(async () => (await driver.list({})).keys[0]?.claims.length === 2, 'the waiter')
    await lease.release()
    await (await waiting).release()
  })
})

describe('an answer that was lost', { retry }, () => {
  const options = { collection: 'cut', changeStream: false }

  /** Claims through a proxy that cuts the connection after the commit. Undefined: the server itself was gone. */
  async function claimAndCut(wanted: Claim): Promise<ClaimStatus | undefined> {
    const { port } = await set.primary()
    const proxy = await TcpProxy.start({ port })
    cleanups.push(() => proxy.stop())
    const url = `mongodb://127.0.0.1:${proxy.port}/?directConnection=true&${polling}&heartbeatFrequencyMS=30000`
    const driver = await open(options, url)
    await claim(driver, claimOf('warm'))
    const cut = proxy.cutAfterRequest().then(() => true)
    const status = await claim(driver, wanted)
    const wasCut = await Promise.race([cut, pause(100, false)])
    return wasCut && status.state !== 'unknown' ? status : undefined
  }

  test('is asked for again by the client of MongoDB, and the grant is one', async () => {
    const { wanted, status } = await eventually(
      async () => {
        const one = claimOf(randomUUID())
        const given = await claimAndCut(one).catch(() => undefined)
        return given && { wanted: one, status: given }
      },
      'a cut',
      90_000,
    )
    const direct = await open(options)
    const [listed] = (await direct.list({ key: wanted.key })).keys
    expect(listed?.claims).toHaveLength(1)
    expect(listed?.claims[0]).toMatchObject({ id: wanted.id, fence: fenceOf(status), renewalCount: 0 })
  })
})

test(
  'a primary that stands still holds up no renewal past a third of its ttl; holders stop first',
  { retry },
  async () => {
    const driver = await open({ collection: 'still', timeout: '60s' })
    const locks = await locksOn(await open({ collection: 'still' }))
    const held = claimOf('kept', { ttlMs: 60_000 })
    const fence = fenceOf(await claim(driver, held))
    const lease = await locks.acquire('lost', { ttl: 3000, heartbeat: 'manual' })
    const primary = await set.primary()
    primary.freeze()
    cleanups.push(async () => primary.thaw())
    const renewal = renew(driver, { ...held, ttlMs: 1500 })
    // Had it been waited for, the next primary would have answered it.
    expect(await renewal).toMatchObject({ state: 'unknown', error: { code: 'UNAVAILABLE', reason: 'no-answer' } })
    await eventually(() => lease.signal.aborted, 'the end of the lease')
    // Another is elected, and knows of the locks.
    expect(fenceOf(await untilAnswered(() => renew(driver, held), 60_000))).toBe(fence)
    const next = await locks.acquire('lost', { ttl: 10_000, wait: '60s' })
    expect(next.fence).toBeGreaterThan(lease.fence)
    await next.release()
  },
)

describe('clients in contention', { retry }, () => {
  test('keep a right history when the primary is killed', { timeout: 300_000 }, async () => {
    await rightHistory({
      trade: 'mutex',
      clients: 4,
      runMs: 6000,
      url: urlOf('killed'),
      ttlMs: 2000,
      async meanwhile() {
        const primary = await set.primary()
        await primary.kill()
        await set.primary(primary)
        await pause(1000)
        await primary.start()
      },
    })
    await expectNoOrphans('killed')
  })

  test('keep a right history when the primary stands still past their ttl', { timeout: 300_000 }, async () => {
    await rightHistory({
      trade: 'readers and writers',
      clients: 4,
      runMs: 6000,
      url: urlOf('frozen'),
      ttlMs: 1000,
      async meanwhile() {
        const primary = await set.primary()
        primary.freeze()
        await set.primary(primary)
        await pause(1500)
        primary.thaw()
      },
    })
    await expectNoOrphans('frozen')
  })
})

function urlOf(collection: string): string {
  return `${set.url}&collection=${collection}`
}

function rightHistory(options: RunOptions): Promise<void> {
  return expectRightHistory(options, { holds: 6, handOvers: 2 }, { fair: false })
}

async function expectNoOrphans(collection: string): Promise<void> {
  const driver = mongodb(urlOf(collection))
  cleanups.push(() => driver.close())
  await eventually(async () => (await driver.list({})).keys.length === 0, 'an empty store')
}

describe('the set', { retry }, () => {
  test('without a majority grants nothing and says so in time, and nothing is left of it', async () => {
    const driver = await open({ collection: 'minority', timeout: 1500 })
    await claim(driver, claimOf('warm'))
    const primary = await set.primary()
    const others = set.servers.filter((server) => server !== primary)
    for (const server of others) server.freeze()
    cleanups.push(async () => others.forEach((server) => server.thaw()))
    const wanted = claimOf('a', { ttlMs: 1000 })
    const status = await claim(driver, wanted).catch((error: unknown) => ({ state: 'unknown', error }))
    expect(status).toMatchObject({ state: 'unknown', error: { code: 'UNAVAILABLE' } })
    for (const server of others) server.thaw()
    const next = claimOf('a')
    await eventually(async () => (await untilAnswered(() => claim(driver, next), 60_000)).state === 'held', 'the lock')
    await release(driver, next)
  })
})
