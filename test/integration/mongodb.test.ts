import { setTimeout as pause } from 'node:timers/promises'
import { MongoClient as MongoClient6 } from 'mongodb-6'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { mongodb, type MongodbOptions, type MongoSource } from '../../src/drivers/mongodb/driver.ts'
import { compareWithModel, conformance } from '../../src/testing/index.ts'
import { claim, claimOf, release, renew, fenceOf } from '../support/claims.ts'
import { answers, clientOf } from '../support/mongo-client.ts'
import { mongoHarness } from '../support/mongo-harness.ts'
import { afterReading } from '../support/mongo-reading.ts'
import { againIfItFell, countFalls } from '../support/mongo-falls.ts'
import { MongoServer } from '../support/mongo-server.ts'
import { rounds } from '../support/extent.ts'

countFalls()

const server = await MongoServer.start()
const client = clientOf(server)

const restart = async (): Promise<void> => {
  await server.kill()
  await server.start()
  await answers(client, 20_000)
}
beforeEach(() => answers(client, 5000).catch(restart))

describe('one server', { retry: againIfItFell, timeout: 300_000 }, () => {
  conformance('mongodb', mongoHarness(client, { database: 'conformance', restart, waitMax: 200 }))
})

describe('one command, or compare-and-swap', { retry: againIfItFell }, () => {
  test('answer as the rule does on random commands', { timeout: 300_000 }, async () => {
    const harness = mongoHarness(client, { database: 'model', waitMin: 2, waitMax: 20 })
    const { commands, counterexample } = await compareWithModel(harness, { runs: rounds(15, 70), timeLimitMs: 250_000 })
    expect(counterexample).toBeUndefined()
    expect(commands).toBeGreaterThanOrEqual(rounds(350, 2000))
  })
})

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup()
})

let collections = 0
const freshName = (): string => `locks${(collections += 1)}`

async function open(
  collection: string,
  options: MongodbOptions = {},
  source: MongoSource = client,
): Promise<LockDriver> {
  const driver = mongodb(source, { collection, database: 'test', ...options })
  cleanups.push(() => driver.close())
  await driver.open()
  return driver
}

describe('a release', { retry: againIfItFell }, () => {
  test('is seen by whoever had read the document before', async () => {
    const collection = freshName()
    const driver = await open(collection)
    const [held, next] = [claimOf('a'), claimOf('a')]
    await claim(driver, held)
    const late = await open(
      collection,
      {},
      afterReading(client.db('test'), () => release(driver, held)),
    )
    expect(await claim(late, next)).toMatchObject({ state: 'held' })
    const [listed] = (await driver.list({ key: 'a' })).keys
    expect(listed?.claims.map(({ id }) => id)).toEqual([next.id])
  })

  test('of a lease that may be over is for the rule to judge, and so is one that came after an unclean end', async () => {
    const collection = freshName()
    const driver = await open(collection)
    const [dead, heir] = [claimOf('a', { ttlMs: 900 }), claimOf('a')]
    await claim(driver, dead)
    await pause(950)
    expect(await release(driver, dead)).toEqual({ state: 'absent', reason: 'expired' })
    const again = claimOf('a', { ttlMs: 900 })
    const { fence } = (await claim(driver, again)) as { fence: number }
    await pause(950)
    const other = await open(collection)
    expect(await claim(other, heir)).toMatchObject({ state: 'held', after: { how: 'expired', fence } })
    expect(await release(other, heir)).toEqual({ state: 'absent', reason: 'released' })
    // What is known of the one that expired outlives its heir.
    expect(await renew(driver, again)).toEqual({ state: 'absent', reason: 'expired' })
  })

  test('leaves a claim alone that others wait behind, and lets them in', async () => {
    const collection = freshName()
    const [driver, other] = [await open(collection), await open(collection)]
    const [held, waiting] = [claimOf('a'), claimOf('a')]
    await claim(driver, held)
    expect(await claim(other, waiting)).toMatchObject({ state: 'waiting' })
    expect(await release(driver, held)).toEqual({ state: 'absent', reason: 'released' })
    // By the release itself: who waits need not ask.
    const [listed] = (await driver.list({ key: 'a' })).keys
    expect(listed?.claims).toMatchObject([{ id: waiting.id, state: 'held' }])
    expect(await claim(other, waiting)).toMatchObject({ state: 'held' })
  })
})

describe('a claim', { retry: againIfItFell }, () => {
  test('that is over is not begun anew by one command, though it comes again', async () => {
    const driver = await open(freshName())
    const dead = claimOf('a', { ttlMs: 50 })
    await claim(driver, dead)
    await pause(60)
    expect(await claim(driver, dead)).toEqual({ state: 'absent', reason: 'expired' })
  })

  test('that finds no document waits if another has made one meanwhile', async () => {
    const collection = freshName()
    const driver = await open(collection)
    const [held, wanted] = [claimOf('a'), claimOf('a')]
    const late = await open(
      collection,
      {},
      afterReading(client.db('test'), () => claim(driver, held)),
    )
    // Twice in one send: not by one command.
    const twice = [1, 2].map(() => ({ op: 'claim', claim: wanted }) as const)
    expect(await late.send(twice)).toMatchObject([{ state: 'waiting' }, { state: 'waiting' }])
    expect(await renew(driver, held)).toMatchObject({ state: 'held' })
  })
})

test(
  'the oldest client package we say we work with does: one command, a queue, a hand-over',
  { retry: againIfItFell },
  async () => {
    const old = new MongoClient6(server.url)
    cleanups.push(() => old.close())
    const collection = freshName()
    const driver = await open(collection, {}, old)
    const [first, second] = [claimOf('a'), claimOf('a')]
    const fence = fenceOf(await claim(driver, first))
    expect(await renew(driver, first)).toMatchObject({ state: 'held', fence })
    expect(await claim(driver, second)).toMatchObject({ state: 'waiting', ahead: 0 })
    expect(await release(driver, first)).toEqual({ state: 'absent', reason: 'released' })
    expect(fenceOf(await claim(driver, second))).toBeGreaterThan(fence)
    expect(await release(driver, second)).toEqual({ state: 'absent', reason: 'released' })
    await expect(open(collection, { timeout: 300 }, new MongoClient6('mongodb://127.0.0.1:1/'))).rejects.toMatchObject({
      code: 'UNAVAILABLE',
    })
  },
)
