import { setTimeout as pause } from 'node:timers/promises'
import { Cluster } from 'ioredis'
import { createCluster } from 'redis'
import { afterAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { Claim, LockDriver, ClaimStatus } from '../../src/core/contract/driver.ts'
import { hashTagOf } from '../../src/drivers/redis/hash-tags.ts'
import { redis, type RedisClient } from '../../src/drivers/redis/driver.ts'
import { createLocks } from '../../src/index.ts'
import { eventually } from '../support/eventually.ts'
import { RedisCluster } from '../support/redis-cluster.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { SlotMove } from '../support/slot-move.ts'
import { fenceOf } from '../support/claims.ts'

const cluster = await RedisCluster.start()
afterAll(() => cluster.stop())

beforeEach(async () => {
  await cluster.empty()
  await Promise.all(cluster.servers.map((server) => server.cli('CONFIG', 'RESETSTAT')))
})

async function ioredisCluster(): Promise<RedisClient> {
  const client = new Cluster(cluster.startNodes)
  onTestFinished(() => client.disconnect())
  return client
}

async function nodeRedisCluster(): Promise<RedisClient> {
  const client = createCluster({ rootNodes: cluster.startNodes.map((socket) => ({ socket })) })
  await client.connect()
  onTestFinished(() => client.destroy())
  return client
}

const libraries = [
  { library: 'ioredis', newClient: ioredisCluster },
  { library: 'node-redis', newClient: nodeRedisCluster },
]

/** Keys of one hash tag, so of one slot. */
const [keyA, keyB, keyC] = keysLike('default/named:orders/', hashTagOf('default/named:orders/42')) as [
  string,
  string,
  string,
]
const slotName = `{${hashTagOf(keyA)}}`

function keysLike(prefix: string, tag: string): string[] {
  return Array.from({ length: 2000 }, (_, index) => `${prefix}${index}`).filter((key) => hashTagOf(key) === tag)
}

/** Begins to move a slot. No test leaves one half way. */
async function beginMove(name: string): Promise<SlotMove> {
  const move = await SlotMove.begin(cluster, name)
  onTestFinished(() => move.end())
  return move
}

function claimOf(id: string, key: string, changes: Partial<Claim> = {}): Claim {
  const runner = { id: `runner-${id}`, incarnation: '1', host: 'here', pid: 1, client: 'test' }
  return { id, key, mode: 'exclusive', priority: 0, wait: true, ttlMs: 60_000, graceMs: 0, runner, ...changes }
}

async function claim(driver: LockDriver, id: string, key: string, changes: Partial<Claim> = {}): Promise<ClaimStatus> {
  const [status] = await driver.send([{ op: 'claim', claim: claimOf(id, key, changes) }])
  return status ?? { state: 'unknown', error: 'no answer' }
}

async function release(driver: LockDriver, id: string, key: string): Promise<ClaimStatus> {
  const [status] = await driver.send([{ op: 'release', key, id }])
  return status ?? { state: 'unknown', error: 'no answer' }
}

async function renew(driver: LockDriver, claims: Record<string, string>): Promise<readonly ClaimStatus[]> {
  return driver.send(Object.entries(claims).map(([id, key]) => ({ op: 'renew', key, id, ttlMs: 60_000 })))
}

const rearranged = { state: 'unknown', error: { code: 'UNAVAILABLE', reason: 'cluster' } }

/** How often the nodes have answered with this error. */
async function errors(name: string): Promise<number> {
  const texts = await Promise.all(cluster.servers.map((server) => server.cli('INFO', 'errorstats')))
  const counts = texts.map((text) => new RegExp(`errorstat_${name}:count=(\\d+)`).exec(text)?.[1] ?? '0')
  return counts.map(Number).reduce((sum, count) => sum + count)
}

describe.each(libraries)('a slot that moves, over $library', ({ newClient }) => {
  let driver: LockDriver
  beforeEach(async () => {
    driver = redis(await newClient())
    onTestFinished(() => driver.close())
    await driver.open()
  })

  test('is followed: locks and fences are as before', async () => {
    const fence = fenceOf(await claim(driver, 'holder', keyA))
    const move = await beginMove(slotName)
    await move.end()
    expect(fenceOf((await renew(driver, { holder: keyA }))[0])).toBe(fence)
    expect(await claim(driver, 'other', keyA, { wait: false })).toMatchObject({ state: 'absent', reason: 'refused' })
    await release(driver, 'holder', keyA)
    expect(fenceOf(await claim(driver, 'other', keyA))).toBeGreaterThan(fence)
    expect(await errors('MOVED')).toBeGreaterThan(0)
  })

  test('and stops half way lets every holder renew and release, in one batch, wherever its record is', async () => {
    const fences = [fenceOf(await claim(driver, 'a', keyA)), fenceOf(await claim(driver, 'b', keyB))]
    const move = await beginMove(slotName)
    await move.move(new RegExp(`k:${keyA}$`))
    for (let beat = 0; beat < 3; beat += 1) {
      expect((await renew(driver, { a: keyA, b: keyB })).map((status) => fenceOf(status))).toEqual(fences)
    }
    expect(await errors('TRYAGAIN')).toBeGreaterThan(0)
    expect(await errors('ASK')).toBeGreaterThan(0)
    const page = await driver.list({ prefix: 'default/named:orders/' })
    const listed = Object.fromEntries(page.keys.map(({ key, claims }) => [key, claims[0]?.id]))
    expect(listed).toEqual({ [keyA]: 'a', [keyB]: 'b' })
    expect(await release(driver, 'a', keyA)).toEqual({ state: 'absent', reason: 'released' })
    expect(await release(driver, 'b', keyB)).toEqual({ state: 'absent', reason: 'released' })
    await move.end()
    expect(fenceOf(await claim(driver, 'next', keyA))).toBeGreaterThan(Math.max(...fences))
  })

  test('and stops half way costs a renewal of a short lease one more try at most', async () => {
    await Promise.all([claim(driver, 'a', keyA), claim(driver, 'b', keyB)])
    const move = await beginMove(slotName)
    await move.move(new RegExp(`k:${keyA}$`))
    const both = [
      { op: 'renew', key: keyA, id: 'a', ttlMs: 3000 },
      { op: 'renew', key: keyB, id: 'b', ttlMs: 3000 },
    ] as const
    // ioredis itself tries a refused call again for longer than such a lease can wait.
    await driver.send(both)
    expect(await driver.send(both)).toMatchObject([{ state: 'held' }, { state: 'held' }])
  })

  test('without its fence counter grants nothing until that has come, and leaves no second one', async () => {
    const fence = fenceOf(await claim(driver, 'holder', keyB))
    const move = await beginMove(slotName)
    expect(await claim(driver, 'early', keyC)).toMatchObject(rearranged)
    await move.move(/fence$/)
    const early = fenceOf(await claim(driver, 'early', keyC))
    expect(early).toBeGreaterThan(fence)
    // What is held stays so on the old node, and what would need the counter there waits.
    expect(fenceOf((await renew(driver, { holder: keyB }))[0])).toBe(fence)
    expect(await claim(driver, 'other', keyB, { wait: false })).toMatchObject(rearranged)
    await move.end()
    expect(await claim(driver, 'other', keyB, { wait: false })).toMatchObject({ state: 'absent', reason: 'refused' })
    expect(fenceOf((await renew(driver, { early: keyC }))[0])).toBe(early)
  })

  test('with a queue keeps its order: nobody is forgotten who waits on the other node', async () => {
    const fence = fenceOf(await claim(driver, 'holder', keyA))
    await driver.send(['first', 'second'].map((id) => ({ op: 'claim', claim: claimOf(id, keyA) })))
    const move = await beginMove(slotName)
    await move.move(/(fence|k:.*)$/)
    expect(await release(driver, 'holder', keyA)).toMatchObject(rearranged)
    expect(await claim(driver, 'third', keyA)).toMatchObject(rearranged)
    expect(fenceOf((await renew(driver, { holder: keyA }))[0])).toBe(fence)
    await move.move(/q:/)
    expect(await release(driver, 'holder', keyA)).toMatchObject(rearranged)
    await move.move(/w:/)
    expect(await release(driver, 'holder', keyA)).toEqual({ state: 'absent', reason: 'released' })
    const first = fenceOf((await renew(driver, { first: keyA }))[0])
    expect(first).toBeGreaterThan(fence)
    await move.end()
    await release(driver, 'first', keyA)
    expect(fenceOf((await renew(driver, { second: keyA }))[0])).toBeGreaterThan(first)
  })

  test('with a queue that has gone ahead of its record keeps its order too', async () => {
    await claim(driver, 'holder', keyA)
    await claim(driver, 'first', keyA)
    const move = await beginMove(slotName)
    await move.move(/[qw]:/)
    expect(await release(driver, 'holder', keyA)).toMatchObject(rearranged)
    expect(await claim(driver, 'second', keyA)).toMatchObject(rearranged)
    await move.end()
    expect(await release(driver, 'holder', keyA)).toEqual({ state: 'absent', reason: 'released' })
    expect(await claim(driver, 'second', keyA)).toMatchObject({ state: 'waiting', ahead: 0 })
    fenceOf((await renew(driver, { first: keyA }))[0])
  })
})

describe.each(libraries)('a closed driver over a Cluster of $library', ({ newClient }) => {
  test('leaves no subscription with the client it was given', async () => {
    const client = await newClient()
    const subscriptions = async (): Promise<string[]> =>
      Promise.all(cluster.servers.map((server) => server.cli('PUBSUB', 'CHANNELS')))
    const [closed, open] = [redis(client), redis(client)]
    await Promise.all([closed.open(), open.open()])
    const before = (await subscriptions())
      .join('\n')
      .split('\n')
      .filter((channel) => channel !== '')
    expect(before).toHaveLength(2)
    await closed.close()
    const after = (await subscriptions())
      .join('\n')
      .split('\n')
      .filter((channel) => channel !== '')
    expect(after).toHaveLength(1)
    expect(await claim(open, 'holder', keyA)).toMatchObject({ state: 'held' })
    await open.close()
  })
})

describe('a node of a Cluster that stands still', () => {
  test('holds up its own locks and no others, and is dialled again', async () => {
    const url = `redis-cluster://${cluster.startNodes.map(({ host, port }) => `${host}:${port}`).join(',')}`
    const driver = redis({ url, commandTimeoutMs: 1500 })
    onTestFinished(() => driver.close())
    await driver.open()
    const frozen = await cluster.primaryOf(slotName)
    const elsewhere = await keyOfAnother(frozen)
    await driver.send([claimOf('a', keyA), claimOf('b', elsewhere)].map((each) => ({ op: 'claim', claim: each })))
    frozen.freeze()
    onTestFinished(() => frozen.thaw())
    for (let beat = 0; beat < 3; beat += 1) {
      const [held, other] = await renew(driver, { a: keyA, b: elsewhere })
      expect(held).toMatchObject({ state: 'unknown', error: { reason: 'network' } })
      expect(other).toMatchObject({ state: 'held' })
    }
    frozen.thaw()
    await eventually(async () => (await renew(driver, { a: keyA }))[0]?.state === 'held', 'The node')
  })

  async function keyOfAnother(server: RedisServer): Promise<string> {
    for (const key of ['one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight']) {
      if ((await cluster.primaryOf(`{${hashTagOf(key)}}`)) !== server) return key
    }
    throw new Error('All keys are on one node.')
  }
})

/** Whether the replica has all that its primary has written. `WAIT` would only tell of what its own connection wrote. */
function isCaughtUp(replication: string): boolean {
  const written = Number(/master_repl_offset:(\d+)/.exec(replication)?.[1])
  const received = Number(/slave0:.*state=online,offset=(\d+)/.exec(replication)?.[1])
  return received >= written
}

describe('a Cluster that loses a primary', () => {
  // An election may have to be held again.
  test('and has a replica of it goes on with the locks that had reached it', async () => {
    const replicated = await RedisCluster.start({ replicas: 1 })
    onTestFinished(() => replicated.stop())
    const driver = redis(
      `redis-cluster://${replicated.startNodes.map(({ host, port }) => `${host}:${port}`).join(',')}`,
    )
    onTestFinished(() => driver.close())
    await driver.open()
    const fence = fenceOf(await claim(driver, 'holder', keyA))
    await claim(driver, 'waiter', keyA)
    const primary = await replicated.primaryOf(slotName)
    await eventually(async () => isCaughtUp(await primary.cli('INFO', 'replication')), 'The replica')
    await primary.kill()
    const survived = await eventually(
      async () => {
        const [status] = await renew(driver, { holder: keyA }).catch(() => [])
        return status?.state === 'held' && status
      },
      'The next primary',
      90_000,
    )
    expect(fenceOf(survived)).toBe(fence)
    await release(driver, 'holder', keyA)
    expect(fenceOf((await renew(driver, { waiter: keyA }))[0])).toBeGreaterThan(fence)
  })
})

describe.each(libraries)(
  'leases whose slot stays half way for longer than they last, over $library',
  ({ newClient }) => {
    test('are kept by their heartbeats', async () => {
      const ttl = 4000
      const locks = await createLocks({ driver: redis(await newClient()) })
      onTestFinished(() => locks.close())
      const names = [keyA, keyB].map((key) => key.replace('default/named:', ''))
      const leases = await Promise.all(names.map((name) => locks.acquire(name, { ttl })))
      const move = await beginMove(slotName)
      await move.move(new RegExp(`k:${keyA}$`))
      await pause(1.5 * ttl)
      expect(leases.map(({ held, signal }) => [held, signal.aborted])).toEqual(leases.map(() => [true, false]))
      await move.end()
      const verdicts = await Promise.all(leases.map((lease) => lease.release()))
      expect(verdicts).toMatchObject(leases.map(() => ({ released: true })))
    })
  },
)

describe.each(libraries)('clients at work while slots move, over $library', ({ newClient }) => {
  test('get every lock in the end, one at a time, with fences that grow', async () => {
    const names = ['orders/42', 'orders/43']
    const work = { over: false }
    const inside = new Map<string, string>()
    const fences = new Map<string, number>()
    const problems: string[] = []
    const turns: number[] = []
    const workers = Array.from({ length: 4 }, async (_, worker) => {
      const locks = await createLocks({ driver: redis(await newClient()) })
      onTestFinished(() => locks.close())
      turns[worker] = 0
      while (!work.over) {
        for (const name of names) {
          const lease = await locks.acquire(name, { ttl: 15_000, wait: 60_000 })
          if (inside.has(name)) problems.push(`${name} was held by ${inside.get(name)}`)
          if (lease.fence <= (fences.get(name) ?? 0)) problems.push(`${name} had fence ${lease.fence} again`)
          fences.set(name, lease.fence)
          inside.set(name, `worker ${worker}`)
          await Promise.resolve()
          inside.delete(name)
          await lease.release()
          turns[worker] = (turns[worker] ?? 0) + 1
        }
      }
    })
    for (let round = 0; round < 3; round += 1) {
      for (const name of names) {
        const move = await beginMove(`{${hashTagOf(`default/named:${name}`)}}`)
        await move.move(/k:/)
        await move.end()
      }
    }
    const done = turns.map((turn) => turn)
    await eventually(() => turns.every((turn, worker) => turn > (done[worker] ?? 0)), 'A turn for everybody')
    work.over = true
    await Promise.all(workers)
    expect(problems).toEqual([])
    expect((await errors('MOVED')) + (await errors('ASK'))).toBeGreaterThan(0)
  })
})
