import { randomBytes } from 'node:crypto'
import { afterAll, describe, expect, test } from 'vitest'
import type { Claim, LockDriver, Request, Notification } from '../../src/core/contract/driver.ts'
import { postgres } from '../../src/drivers/postgres/driver.ts'
import { postgresAdvisory } from '../../src/drivers/postgres-advisory/driver.ts'
import { claim, claimOf, release, renew, claiming } from '../support/claims.ts'
import { eventually } from '../support/eventually.ts'
import { opened } from '../support/opened.ts'
import { PostgresServer, freshSchema } from '../support/postgres-server.ts'

const server = await PostgresServer.start()
afterAll(() => server.destroy())

async function deadlocks(): Promise<number> {
  const [row] = await server.sql('select deadlocks::integer from pg_stat_database where datname = current_database()')
  return row?.['deadlocks'] as number
}

async function sessions(): Promise<number> {
  const others = "backend_type = 'client backend' and pid <> pg_backend_pid()"
  const [row] = await server.sql(`select count(*)::integer as sessions from pg_stat_activity where ${others}`)
  return row?.['sessions'] as number
}

describe('batches over keys that nobody used before', () => {
  test('never wait for each other in a cycle, whatever they ask and in whatever order', async () => {
    const schema = freshSchema('batches')
    const drivers = await Promise.all([1, 2, 3, 4].map(() => opened(postgres(server.url, { schema, listen: false }))))
    const before = await deadlocks()
    for (let round = 0; round < 40; round += 1) {
      const keys = Array.from({ length: 60 }, (_, index) => `${round}-${String(index).padStart(2, '0')}`)
      // The last ones are there already: whoever locks those first and makes the others then is in the way of everybody.
      await drivers[0]?.send(keys.slice(40).map((key) => claiming(claimOf(key, { ttlMs: 1 }))))
      const batches = drivers.map((driver, place) => {
        const renewal: Request = { op: 'renew', key: keys[59] ?? '', id: 'nobody', ttlMs: 60_000 }
        const claims = keys.map((key) => claiming(claimOf(key)))
        return driver.send(place % 2 === 0 ? claims : [renewal, ...claims.toReversed()])
      })
      await Promise.all(batches)
    }
    // A session has told the server what it counted once it is gone.
    await Promise.all(drivers.map((driver) => driver.close()))
    await eventually(async () => (await sessions()) === 0, 'the end of all sessions')
    expect((await deadlocks()) - before).toBe(0)
  })
})

describe('a request that the server refuses', () => {
  const long = randomBytes(10_000).toString('hex')
  const hostile: readonly [string, (id: string) => Request][] = [
    ['a key with a NUL', () => claiming(claimOf('m\u0000'))],
    ['a key that is no text', () => claiming(claimOf('m\ud800'))],
    ['a key too long for an index', () => claiming(claimOf(`m${long}`))],
    ['an id with a NUL', () => claiming(claimOf('m', { id: 'm\u0000' }))],
    ['a ttl beyond all numbers', () => claiming(claimOf('m', { ttlMs: 2 ** 63 }))],
    ['a floor beyond all numbers', (id) => ({ op: 'renew', key: 'mine', id, ttlMs: 60_000, fenceFloor: 1e30 })],
    ['a reason with a NUL', () => ({ op: 'evict', key: 'mine', fence: 1, reason: '\u0000' })],
    ['a key whose record cannot be read', () => claiming(claimOf('spoilt'))],
  ]
  // Keys on both sides of the hostile ones.
  const bystanders = (): Claim[] => ['a', 'b', 'c', 'd', 'e', 'v', 'w', 'x', 'y', 'z'].map((key) => claimOf(key))

  test.each(hostile)('fails alone: %s', async (_, make) => {
    const schema = freshSchema('batches')
    const driver = await opened(postgres(server.url, { schema, listen: false }))
    const [mine, spoilt] = [claimOf('mine'), claimOf('spoilt')]
    await driver.send([claiming(mine), claiming(spoilt)])
    await server.sql(`update ${schema}.keys set id = null, ended = '{"until": "for ever"}' where key = 'spoilt'`)
    const claims = bystanders()
    const requests = claims.map(claiming)
    const statuses = await driver.send([...requests.slice(0, 5), make(mine.id), ...requests.slice(5)])
    expect(statuses.toSpliced(5, 1).map(({ state }) => state)).toEqual(claims.map(() => 'held'))
    expect(statuses[5]).toMatchObject({ state: 'unknown', error: { code: expect.any(String) as string } })
    // Each is held by its claim, and nothing else was done.
    for (const each of claims) expect(await renew(driver, each)).toMatchObject({ state: 'held' })
    expect(await renew(driver, mine)).toMatchObject({ state: 'held' })
  })

  test('leaves others the order in which they asked for one key', async () => {
    const driver = await opened(postgres(server.url, { schema: freshSchema('batches'), listen: false }))
    const [first, second] = [claimOf('a'), claimOf('a', { wait: false })]
    const statuses = await driver.send([
      claiming(first),
      { op: 'release', key: 'a', id: first.id },
      claiming(second),
      claiming(claimOf('b\u0000')),
      { op: 'release', key: 'a', id: second.id },
    ])
    expect(statuses.map(({ state }) => state)).toEqual(['held', 'absent', 'held', 'unknown', 'absent'])
  })

  test('fails alone among advisory locks too', async () => {
    const driver = await opened(postgresAdvisory(server.url, { schema: freshSchema('batches') }))
    const mine = claimOf('mine', { wait: false, ttlMs: 20_000 })
    expect(await claim(driver, mine)).toMatchObject({ state: 'held' })
    const claims = bystanders().map((each) => ({ ...each, wait: false, ttlMs: 20_000 }))
    const requests: readonly Request[] = [
      ...claims.map(claiming),
      claiming(claimOf('m\u0000', { wait: false, ttlMs: 20_000 })),
      { op: 'renew', key: 'mine', id: mine.id, ttlMs: 20_000, fenceFloor: 1e30 },
    ]
    const statuses = await driver.send(requests)
    expect(statuses.slice(0, 10).map(({ state }) => state)).toEqual(claims.map(() => 'held'))
    expect(statuses.slice(10).map(({ state }) => state)).toEqual(['unknown', 'unknown'])
    expect(await renew(driver, mine)).toMatchObject({ state: 'held' })
  })
})

test('two that share are lifted to one fence, and nobody of their batch is harmed', async () => {
  const driver = await opened(postgres(server.url, { schema: freshSchema('batches'), listen: false }))
  const [one, other] = [claimOf('a', { mode: 'shared' }), claimOf('a', { mode: 'shared' })]
  await claim(driver, one)
  const { fence } = (await claim(driver, other)) as { fence: number }
  const floor = fence + 1_000_000
  const lifted = ({ key, id, ttlMs }: Claim): Request => ({ op: 'renew', key, id, ttlMs, fenceFloor: floor })
  const statuses = await driver.send([lifted(one), lifted(other), claiming(claimOf('b'))])
  expect(statuses).toMatchObject([{ state: 'held', fence: floor }, { state: 'held', fence: floor }, { state: 'held' }])
})

test('an unreadable runner in the tables costs nobody an answer', async () => {
  const schema = freshSchema('batches')
  const driver = await opened(postgres(server.url, { schema, listen: false }))
  await claim(driver, claimOf('a', { ttlMs: 1, graceMs: 0 }))
  await claim(driver, claimOf('b'))
  await server.sql(`update ${schema}.keys set runner = 'no JSON'`)
  const statuses = await eventually(async () => {
    const sent = await driver.send([claiming(claimOf('a')), claiming(claimOf('c'))])
    return sent[0]?.state === 'held' && sent
  }, 'the lock')
  expect(statuses).toMatchObject([{ state: 'held', after: { runner: { id: 'unreadable' } } }, { state: 'held' }])
  expect((await driver.list({})).keys.map(({ key }) => key)).toEqual(['a', 'b', 'c'])
})

describe('a notification', () => {
  /** What a driver is told of a claim that waits. */
  function receivedBy(driver: LockDriver): (readonly [string, Notification])[] {
    const received: (readonly [string, Notification])[] = []
    driver.listen?.((_key, id, notification) => received.push([id, notification]))
    return received
  }

  test('that would be too long only tells the claim to poll, and harms nobody', async () => {
    const schema = freshSchema('batches')
    const [driver, waiter] = [
      await opened(postgres(server.url, { schema })),
      await opened(postgres(server.url, { schema })),
    ]
    const received = receivedBy(waiter)
    // The successor of a holder that was evicted is told who that was, with all that it said of itself.
    const talkative = { ...claimOf('b').runner, metadata: { story: 'x'.repeat(8100) } }
    const [held, waiting] = [claimOf('b', { runner: talkative }), claimOf('b')]
    const { key } = held
    const { fence } = (await claim(driver, held)) as { fence: number }
    await claim(waiter, waiting)
    const statuses = await driver.send([claiming(claimOf('a')), { op: 'evict', key, fence, reason: 'by design' }])
    expect(statuses).toMatchObject([{ state: 'held' }, { state: 'absent', reason: 'evicted' }])
    await eventually(
      () => received.some(([id, notification]) => id === waiting.id && notification === 'poll'),
      'the notification',
    )
    expect(await renew(waiter, waiting)).toMatchObject({ state: 'held' })
  })

  test('for which the server has no room costs no grant: claims are carried out without, and waiters poll', async () => {
    const schema = freshSchema('batches')
    // What a server says whose queue of 8 GB is full, by a function in front of its own. See `max_notify_queue_pages` for a real one.
    await server.sql(`
      create schema full_queue;
      create function full_queue.pg_notify(text, text) returns void language plpgsql as $$
      begin
        raise program_limit_exceeded using message = 'too many notifications in the NOTIFY queue';
      end
      $$`)
    const url = `${server.url}?options=${encodeURIComponent('-c search_path=full_queue,pg_catalog')}`
    const waiter = await opened(postgres(server.url, { schema }))
    const driver = await opened(postgres(url, { schema }))
    const [held, waiting] = [claimOf('a'), claimOf('a')]
    await claim(driver, held)
    await claim(waiter, waiting)
    const statuses = await driver.send([{ op: 'release', key: 'a', id: held.id }, claiming(claimOf('b'))])
    expect(statuses).toMatchObject([{ state: 'absent', reason: 'released' }, { state: 'held' }])
    expect(await renew(waiter, waiting)).toMatchObject({ state: 'held' })
    // So is a single claim; and the driver, which hears nothing, reports gaps.
    const next = claimOf('a')
    let gaps = 0
    driver.listen?.(
      () => {},
      () => (gaps += 1),
    )
    await claim(driver, next)
    await eventually(() => gaps > 0, 'a gap')
    expect(await release(waiter, waiting)).toEqual({ state: 'absent', reason: 'released' })
    expect(await renew(driver, next)).toMatchObject({ state: 'held' })
  })
})
