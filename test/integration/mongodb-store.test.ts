import { Long, MongoClient, ReadConcern, type MongoClientOptions } from 'mongodb'
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { KeyPage, LockDriver } from '../../src/core/contract/driver.ts'
import { mongodb, type MongodbOptions, type MongoSource } from '../../src/drivers/mongodb/driver.ts'
import { decodeMongodbDocument, type StoredKey } from '../../src/drivers/mongodb/document.ts'
import { connect, createLocks } from '../../src/index.ts'
import { claim, claimOf, release, renew, fenceOf, untilAnswered } from '../support/claims.ts'
import { eventually } from '../support/eventually.ts'
import { answers, withinSeconds } from '../support/mongo-client.ts'
import { againIfItFell, countFalls } from '../support/mongo-falls.ts'
import { MongoServer, polling } from '../support/mongo-server.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'

const server = await MongoServer.start()
// First, so that it is done last: what a test froze goes on before anybody looks.
countFalls()
const observer = new MongoClient(server.url)
const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup()
})
// The Windows build may fall over when a client leaves: clients leave after it, and each test begins with a server that
// answers. What it was in the middle of is tried again.
const clients: MongoClient[] = [observer]
const retry = againIfItFell
beforeEach(async () => {
  await answers(observer, 5000).catch(async () => {
    await server.kill()
    await server.start()
    await answers(observer, 5000)
  })
})
afterAll(async () => {
  await server.stop()
  await Promise.all(clients.map((client) => client.close()))
})

let collections = 0
const freshName = (): string => `locks${(collections += 1)}`
const stored = (collection: string) => observer.db('test').collection<{ _id: string }>(collection)

async function open(collection: string, options: MongodbOptions = {}, source: MongoSource = observer) {
  const driver = mongodb(source, { collection, ...options })
  cleanups.push(() => driver.close())
  await driver.open()
  return driver
}

/** A client that notes down what it sends. */
function watched(options: MongoClientOptions = {}): { client: MongoClient; commands: string[] } {
  const client = new MongoClient(server.url, { ...options, monitorCommands: true })
  clients.push(client)
  const commands: string[] = []
  client.on('commandStarted', ({ commandName }) => commands.push(commandName))
  return { client, commands }
}

describe('one command', { retry }, () => {
  test('takes a key that is idle, renews it and lets it go', async () => {
    const collection = freshName()
    const { client, commands } = watched()
    const driver = await open(collection, {}, client)
    const [first, second] = [claimOf('a'), claimOf('a')]
    await claim(driver, first)
    await eventually(() => commands.includes('createIndexes'), 'the index')
    commands.length = 0
    expect(await renew(driver, first)).toMatchObject({ state: 'held' })
    expect(await release(driver, first)).toEqual({ state: 'absent', reason: 'released' })
    expect(await claim(driver, second)).toMatchObject({ state: 'held' })
    expect(commands).toEqual(['findAndModify', 'update', 'findAndModify'])
  })

  test('takes a key whose holder is over, by the server’s clock, and says who that was', async () => {
    const collection = freshName()
    const { client, commands } = watched()
    const driver = await open(collection, {}, client)
    const dead = claimOf('a', { ttlMs: 50 })
    const fence = fenceOf(await claim(driver, dead))
    await eventually(async () => {
      const { now, keys } = await driver.list({})
      return now >= (keys[0]?.claims[0]?.expiresAt ?? Infinity)
    }, 'the end')
    commands.length = 0
    const status = await claim(driver, claimOf('a', { wait: false }))
    expect(status).toMatchObject({ after: { how: 'expired', fence, runner: dead.runner } })
    expect(fenceOf(status)).toBeGreaterThan(fence)
    expect(commands.filter((name) => name !== 'createIndexes')).toEqual(['findAndModify'])
    // The sweep has not been there: it is not what frees a lock.
    expect(await stored(collection).countDocuments({ expiresAt: { $gt: new Date(Date.now() + 3_000_000) } })).toBe(1)
  })

  test('leaves a document like the one that compare-and-swap leaves', async () => {
    const collection = freshName()
    const clockForTests = (): number => 1_800_000_000_000
    const driver = await open(collection, { clockForTests })
    const metadata = { '$set.x': [1, { 'a.b': null }], name: '$name' }
    const runner = { ...claimOf('a').runner, metadata }
    const wish = { id: '$one', mode: 'shared', limit: 3, range: { start: 1, end: 5 }, maxHoldMs: 9, runner } as const
    await claim(driver, claimOf('quick', wish))
    const slow = claimOf('slow', wish)
    await driver.send([1, 2].map(() => ({ op: 'claim' as const, claim: slow })))
    const [quick, swapped] = (await stored(collection).find().toArray()) as unknown as StoredKey[]
    const decoded = [quick, swapped].map((document) => document && decodeMongodbDocument('', document))
    expect(decoded[0]).toEqual(decoded[1])
    expect(decoded[0]?.claims).toHaveLength(1)
    expect(quick?.freeAt).toEqual(swapped?.freeAt)
    const { keys } = await driver.list({})
    expect(keys.map(({ claims }) => claims[0]?.runner)).toEqual([runner, runner])
  })
})

describe('fences never fall', { retry }, () => {
  test('after a release, the sweep, and a drop', async () => {
    const collection = freshName()
    const driver = await open(collection)
    const fences: number[] = []
    const takeTurn = async (): Promise<void> => {
      const wanted = claimOf('a')
      fences.push(fenceOf(await claim(driver, wanted)))
      await release(driver, wanted)
    }
    await takeTurn()
    await takeTurn()
    await eventually(async () => (await stored(collection).indexes()).length === 2, 'the index')
    await stored(collection).updateOne({ _id: 'a' }, { $set: { expiresAt: new Date(0) } })
    await eventually(async () => (await stored(collection).countDocuments()) === 0, 'the sweep', 60_000)
    await takeTurn()
    await stored(collection).drop(withinSeconds)
    await takeTurn()
    expect(fences).toEqual([...new Set(fences)].toSorted((left, right) => left - right))
  })

  test('after documents were restored from an older copy, in one command or by the rule', async () => {
    const collection = freshName()
    const driver = await open(collection)
    const fences: number[] = []
    const takeTurn = async (): Promise<void> => {
      const wanted = claimOf('a')
      // Twice in one send: the rule decides.
      const [status] = await driver.send(
        [1, 2].slice(fences.length % 2).map(() => ({ op: 'claim', claim: wanted }) as const),
      )
      fences.push(fenceOf(status))
      await release(driver, wanted)
    }
    await takeTurn()
    await takeTurn()
    const copy = await stored(collection).find().toArray()
    for (let turns = 0; turns < 6; turns += 1) await takeTurn()
    for (let turns = 0; turns < 2; turns += 1) {
      await stored(collection).deleteMany({}, withinSeconds)
      await stored(collection).insertMany(copy, withinSeconds)
      await takeTurn()
    }
    expect(fences).toEqual([...new Set(fences)].toSorted((left, right) => left - right))
  })

  test('so a document is kept at least an hour past its last fence, and for as long as it has claims', async () => {
    const collection = freshName()
    const driver = await open(collection)
    const kept = async (): Promise<number> => {
      const document = await stored(collection).findOne({ _id: 'a' })
      return (document as unknown as { expiresAt: Date }).expiresAt.getTime() - Date.now()
    }
    const [short, long] = [claimOf('a', { ttlMs: 1000 }), claimOf('a', { ttlMs: 20_000_000 })]
    await claim(driver, short)
    await release(driver, short)
    expect(await kept()).toBeGreaterThan(3_590_000)
    expect(await kept()).toBeLessThan(7_210_000)
    await claim(driver, long)
    expect(await kept()).toBeGreaterThan(20_000_000)
    await release(driver, long)
    // Twice in one send: the rule writes.
    const longer = claimOf('a', { ttlMs: 40_000_000 })
    await driver.send([1, 2].map(() => ({ op: 'claim', claim: longer }) as const))
    expect(await kept()).toBeGreaterThan(40_000_000)
  })
})

describe('the age of the data', { retry }, () => {
  test('is counted since the collection was made, or the server started, by the server’s clock', async () => {
    const collection = freshName()
    const driver = await open(collection)
    const age = async (): Promise<number> => (await driver.dataAgeMs?.()) ?? Infinity
    const beganAt = performance.now()
    expect(await age()).toBe(0)
    const until = async (leastMs: number): Promise<unknown> =>
      eventually(async () => (await age().catch(() => 0)) >= leastMs, `an age of ${leastMs} ms`, 60_000)
    await until(300)
    expect(await age()).toBeLessThanOrEqual(performance.now() - beganAt)
    // Another driver says the same, and no lock is listed that is none.
    const other = await open(collection, {}, server.url)
    expect(await other.dataAgeMs?.()).toBeGreaterThanOrEqual(300)
    expect((await other.list({})).keys).toEqual([])
    await stored(collection).deleteMany({}, withinSeconds)
    expect(await age()).toBe(0)
    await until(300)
    await stored(collection).drop(withinSeconds)
    expect(await age()).toBe(0)
    await until(300)
    // As a dump brings it back: the same documents in a collection that is another.
    const copy = await stored(collection).find().toArray()
    await stored(collection).drop(withinSeconds)
    await stored(collection).insertMany(copy, withinSeconds)
    expect(await age()).toBe(0)
    await until(300)
    const restartedAt = performance.now()
    await server.kill()
    await server.start()
    const said = await eventually(() => age().then(String, () => undefined), 'an answer', 60_000)
    expect(Number(said)).toBeLessThan(performance.now() - restartedAt)
  })
})

describe('the TTL index', { retry }, () => {
  test('is made once a process and collection', async () => {
    const collection = freshName()
    const { client, commands } = watched()
    for (let turn = 0; turn < 3; turn += 1) await claim(await open(collection, {}, client), claimOf(`key ${turn}`))
    await eventually(async () => (await stored(collection).indexes()).length === 2, 'the index')
    expect(commands.filter((name) => name === 'createIndexes')).toHaveLength(1)
    const index = (await stored(collection).indexes()).find(({ name }) => name === 'expiresAt_ttl')
    expect(index).toMatchObject({ key: { expiresAt: 1 }, expireAfterSeconds: 0 })
  })

  test('blocks no lock when it cannot be made', async () => {
    const collection = freshName()
    await stored(collection).createIndex({ other: 1 }, { name: 'expiresAt_ttl' })
    const { client, commands } = watched()
    const driver = await open(collection, {}, client)
    expect(await claim(driver, claimOf('a'))).toMatchObject({ state: 'held' })
    await eventually(() => commands.includes('createIndexes'), 'the attempt')
    expect(await stored(collection).indexes()).not.toContainEqual(expect.objectContaining({ expireAfterSeconds: 0 }))
  })
})

describe('concerns', { retry }, () => {
  test('weaker than a majority are refused, with the reason', async () => {
    const weak: [MongoSource, MongodbOptions, RegExp][] = [
      [`${server.url}&w=1`, {}, /INVALID: Locks are not safe with write concern w: 1\. A failover could undo a grant/],
      [`${server.url}&readConcernLevel=local`, {}, /INVALID: Locks are not safe with read concern 'local'/],
      [watched({ writeConcern: { w: 0 } }).client, {}, /write concern w: 0/],
      [observer.db('test', { readConcern: new ReadConcern('available') }), {}, /read concern 'available'/],
      [observer, { readConcern: 'local' as 'majority' }, /read concern "local"/],
    ]
    for (const [source, options, message] of weak)
      await expect(open('refused', options, source)).rejects.toThrow(message)
  })

  test('of a majority are welcome: a URL, a client and a Db all lead to the same locks', async () => {
    const collection = freshName()
    const overDb = await open(collection, {}, observer.db('test', { writeConcern: { w: 'majority' } }))
    const overClient = await open(collection, { database: 'test' })
    const locks = await connect(`${server.url}&w=majority&readConcernLevel=majority&collection=${collection}`)
    cleanups.push(() => locks.close())
    await using lease = await locks.acquire('a')
    for (const driver of [overDb, overClient]) {
      expect((await driver.list({})).keys[0]?.claims[0]).toMatchObject({ state: 'held', fence: lease.fence })
    }
  })
})

test('a record of a newer format and one that is damaged are refused, and left alone', { retry }, async () => {
  const collection = freshName()
  const driver = await open(collection)
  const freeAt = new Date(8.64e15)
  const records = [
    { reason: 'foreign', version: 2, claims: [] },
    { reason: 'corrupt', version: 1, lastFence: 'many', claims: [] },
    { reason: 'corrupt', version: 1, lastFence: 1, claims: 'none', freeAt },
    { reason: 'corrupt', version: 1, lastFence: 1, claims: [{ id: 'a', claim: '{' }], freeAt },
    { reason: 'corrupt', version: 1, lastFence: 1, claims: [null], freeAt, writtenAt: 'long ago' },
    // Without a date nobody can tell when it is free.
    { reason: 'corrupt', version: 1, lastFence: 1, claims: [{ id: 'a', claim: '{' }] },
    // There is no fence after it.
    { reason: 'corrupt', version: 1, lastFence: Infinity, claims: [], freeAt },
    { reason: 'corrupt', version: 1, lastFence: new Date(), claims: [], freeAt },
    { reason: 'corrupt', version: 1, lastFence: Long.MAX_VALUE, claims: [], freeAt },
  ]
  for (const [index, record] of records.entries()) {
    const key = `key ${index}`
    await stored(collection).insertOne({ _id: key, ...record })
    await expect(claim(driver, claimOf(key))).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: record.reason })
    expect(await stored(collection).findOne({ _id: key })).toEqual({ _id: key, ...record })
    // Nor is it a reason to refuse others, or to list none.
    const sound = claimOf(`sound ${index}`)
    const requests = [claimOf(key), sound, sound].map((wanted) => ({ op: 'claim', claim: wanted }) as const)
    expect(await driver.send(requests)).toMatchObject([{ state: 'unknown' }, { state: 'held' }, { state: 'held' }])
  }
  expect((await driver.list({})).keys.map(({ key }) => key)).toEqual(records.map((_, index) => `sound ${index}`))
  await expect(driver.list({ key: 'key 3' })).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'corrupt' })
})

test('a claim that asks for more time than a date can have is not the end of another', { retry }, async () => {
  const collection = freshName()
  const driver = await open(collection)
  const holder = claimOf('a')
  await claim(driver, holder)
  const endless = { graceMs: Number.MAX_SAFE_INTEGER, ttlMs: 60_000 }
  // One that waits is written by the rule, and one that holds by one command.
  for (const wanted of [claimOf('a', endless), claimOf('b', endless)]) {
    await driver.send([{ op: 'claim', claim: wanted }]).catch(() => [])
    const document = (await stored(collection).findOne({ _id: wanted.key })) as unknown as StoredKey | null
    // It may be refused as a whole; what is stored must not be collected.
    if (document !== null) expect(document.expiresAt.getTime()).toBeGreaterThan(Date.now() + 3_000_000)
  }
  expect(await renew(driver, holder)).toMatchObject({ state: 'held' })
})

describe('an answer', { retry }, () => {
  const proxied = async (): Promise<{ proxy: TcpProxy; url: string }> => {
    const proxy = await TcpProxy.start({ port: server.port })
    cleanups.push(() => proxy.stop())
    return {
      proxy,
      url: `mongodb://127.0.0.1:${proxy.port}/?directConnection=true&${polling}&heartbeatFrequencyMS=30000`,
    }
  }
  /** The server is found again a moment after a connection broke. */
  const found = (driver: LockDriver): Promise<unknown> =>
    eventually(() => driver.list({}).catch(() => undefined), 'the server')

  test('cut off after the commit is unknown: asking again finds the grant, and nothing is left behind', async () => {
    const collection = freshName()
    const { proxy, url } = await proxied()
    const driver = await open(collection, {}, url)
    const direct = await open(collection)
    let fenceMax = 0
    for (let turn = 0; turn < 3; turn += 1) {
      await found(driver)
      const wanted = claimOf('a')
      const cut = proxy.cutAfterRequest()
      const [status] = await Promise.all([claim(driver, wanted), cut])
      expect(status).toMatchObject({ state: 'unknown', error: { code: 'UNAVAILABLE', reason: 'network' } })
      const fence = fenceOf(await untilAnswered(() => claim(direct, wanted), 60_000))
      expect(fence).toBeGreaterThan(fenceMax)
      fenceMax = fence
      expect(await untilAnswered(() => release(direct, wanted), 60_000)).toMatchObject({ state: 'absent' })
    }
    expect(await eventually(() => direct.list({}).catch(() => undefined), 'the list')).toMatchObject({ keys: [] })
  })

  test('cut off leaves no orphan: the client lets go by the id', async () => {
    const collection = freshName()
    const { proxy, url } = await proxied()
    const driver = await eventually(() => open(collection, {}, url).catch(() => undefined), 'the server')
    const locks = await createLocks({ driver })
    cleanups.push(() => locks.close())
    await found(driver)
    const cut = proxy.cutAfterRequest()
    const [lease] = await Promise.all([locks.tryAcquire('a', { ttl: '60s' }).catch(() => null), cut])
    await lease?.release()
    await eventually(
      async () => (await stored(collection).countDocuments({ 'claims.0': { $exists: true } })) === 0,
      'order',
    )
  })

  test('that does not come is given up in time', async () => {
    const { proxy, url } = await proxied()
    const collection = freshName()
    const driver = await eventually(() => open(collection, { timeout: 300 }, url).catch(() => undefined), 'the server')
    await found(driver)
    proxy.dropReplies = true
    const status = await claim(driver, claimOf('a'))
    expect(status).toMatchObject({ state: 'unknown', error: { code: 'UNAVAILABLE', reason: 'no-answer' } })
    proxy.dropReplies = false
  })

  test('of nobody is told as network, and in time', async () => {
    const driver = mongodb('mongodb://127.0.0.1:1/', { timeout: 500 })
    cleanups.push(() => driver.close())
    await expect(driver.open()).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  })
})

describe('documents that are too large to be read together', { retry }, () => {
  test('are read in several goes: requests for many keys are answered, and pages are shorter', async () => {
    const collection = freshName()
    const driver = await open(collection, { timeout: '20s' })
    const keys = ['a', 'b', 'c']
    for (const key of keys) {
      await claim(driver, claimOf(key))
      const { claims: [first] = [], ...rest } = (await stored(collection).findOne({ _id: key })) as unknown as StoredKey
      const asked = JSON.parse(first?.claim ?? '') as { runner: object }
      // As the metadata of some hundred waiters would.
      const large = { ...asked, runner: { ...asked.runner, metadata: { text: 'x'.repeat(6_000_000) } } }
      const document = { ...rest, claims: [{ ...first, claim: JSON.stringify(large) }] }
      await stored(collection).replaceOne({ _id: key }, document)
    }
    const requests = keys.map((key) => ({ op: 'claim' as const, claim: claimOf(key, { wait: false }) }))
    expect(await driver.send(requests)).toEqual(keys.map(() => ({ state: 'absent', reason: 'refused' })))
    const listed: string[] = []
    for (let after: string | undefined = ''; after !== undefined;) {
      const page: KeyPage = await driver.list({ after })
      listed.push(...page.keys.map(({ key }) => key))
      after = page.next
    }
    expect(listed).toEqual(keys)
  })
})

describe('two at once', { retry }, () => {
  test('that find no document: one is let in and the other queued, every time', async () => {
    const collection = freshName()
    const [one, other] = [await open(collection), await open(collection)]
    for (let turn = 0; turn < 3; turn += 1) {
      const statuses = await Promise.all([one, other].map((driver) => claim(driver, claimOf(`key ${turn}`))))
      expect(statuses.map(({ state }) => state).toSorted()).toEqual(['held', 'waiting'])
    }
  })
})
