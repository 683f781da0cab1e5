/** Keys with many holders, which Redis keeps in keys of their own: what a request costs, and that the rule stays the same. */
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Claim, ClaimStatus, LockDriver } from '../../src/core/contract/driver.ts'
import { redis } from '../../src/drivers/redis/driver.ts'
import { ask, claim, claimOf, claiming, release, renew } from '../support/claims.ts'
import { opened } from '../support/opened.ts'
import { playRandomRequests, type RequestMix } from '../support/random-requests.ts'
import { RedisCluster } from '../support/redis-cluster.ts'
import { RedisServer } from '../support/redis-server.ts'
import { SlotMove } from '../support/slot-move.ts'
import { rounds } from '../support/extent.ts'

const server = await RedisServer.start()
const cluster = await RedisCluster.start()
afterAll(() => Promise.all([server.stop(), cluster.stop()]))
beforeEach(async () => {
  await server.cli('FLUSHALL')
})

/** The value, which must be there. */
function present<Value>(value: Value | undefined): Value {
  if (value === undefined) throw new Error('It is missing.')
  return value
}

/** Reads the names in Redis, without the fence counters. */
async function names(): Promise<readonly string[]> {
  const all = (await server.cli('KEYS', '*')).split('\n')
  return all.filter((name) => name !== '' && !name.endsWith('fence')).toSorted()
}

function readers(count: number, wish: Partial<Claim> = {}): Claim[] {
  return Array.from({ length: count }, () => claimOf('file', { mode: 'shared', ...wish }))
}

async function claimAll(driver: LockDriver, claims: readonly Claim[]): Promise<void> {
  for (let from = 0; from < claims.length; from += 200) {
    const statuses = await driver.send(claims.slice(from, from + 200).map((each) => claiming(each)))
    expect(statuses.every(({ state }) => state === 'held')).toBe(true)
  }
}

/** How often Redis runs each command, scripts' commands included, during `work`. */
async function commandsOf(work: () => Promise<unknown>): Promise<Readonly<Record<string, number>>> {
  await server.cli('CONFIG', 'RESETSTAT')
  await work()
  const statistics = await server.cli('INFO', 'commandstats')
  const counts = [...statistics.matchAll(/cmdstat_([^:]+):calls=(\d+)/g)].map(([, name, calls]) => [
    name,
    Number(calls),
  ])
  const { 'config|resetstat': _, ...rest } = Object.fromEntries(counts) as Record<string, number>
  return rest
}

describe('a renewal beside many shared holders', () => {
  test('takes the same commands, and reads as little, beside 2,000 as beside 10', { timeout: 60_000 }, async () => {
    const driver = await opened(redis(server.url))
    const costOf = async (
      count: number,
    ): Promise<{ commands: Readonly<Record<string, number>>; recordBytes: number }> => {
      await server.cli('FLUSHALL')
      const claims = readers(count)
      await claimAll(driver, claims)
      // Once, so that Redis knows the script.
      await renew(driver, present(claims[0]))
      const commands = await commandsOf(async () => {
        for (const each of claims.slice(0, 10)) expect(await renew(driver, each)).toMatchObject({ state: 'held' })
      })
      const [record] = (await names()).filter((name) => name.includes('}k:'))
      return { commands, recordBytes: Number(await server.cli('STRLEN', present(record))) }
    }
    const [ten, thousands] = [await costOf(10), await costOf(2000)]
    expect(thousands.commands).toEqual(ten.commands)
    // The numbers in it have more digits.
    expect(thousands.recordBytes).toBeLessThan(ten.recordBytes + 16)
  })
})

describe('a list of a few claims', () => {
  test.each([
    ['holders', {}],
    ['waiters', { mode: 'exclusive' }],
  ] as const)('reads a few of many %s', async (_what, wish) => {
    const driver = await opened(redis(server.url))
    const costOf = async (count: number): Promise<Readonly<Record<string, number>>> => {
      await server.cli('FLUSHALL')
      await claim(driver, present(readers(1, wish)[0]))
      for (let from = 0; from < count; from += 200) await driver.send(readers(200, wish).map((each) => claiming(each)))
      await driver.list({ key: 'file', claims: 5 })
      return commandsOf(async () => {
        const { keys } = await driver.list({ key: 'file', claims: 5 })
        expect(keys[0]?.claims.length).toBe(5)
        expect((keys[0]?.held ?? 0) + (keys[0]?.waiting ?? 0)).toBe(count + 1)
      })
    }
    expect(await costOf(2000)).toEqual(await costOf(200))
  })
})

describe('a key with many holders', () => {
  test('leaves nothing behind, once all have released, or once one holder is left', async () => {
    const driver = await opened(redis(server.url))
    const claims = readers(40)
    await claimAll(driver, claims)
    expect((await names()).length).toBe(5)
    for (const each of claims.slice(1)) await release(driver, each)
    expect((await names()).length).toBe(1)
    expect(await renew(driver, present(claims[0]))).toMatchObject({ state: 'held' })
    await release(driver, present(claims[0]))
    expect(await names()).toEqual([])
  })

  test('keeps each of its keys at least one ttl beyond the last lease', async () => {
    const driver = await opened(redis(server.url))
    const claims = readers(5, { range: { start: 0, end: 10 }, ttlMs: 60_000 })
    await claimAll(driver, claims)
    await renew(driver, { ...present(claims[0]), ttlMs: 600_000 })
    await claimAll(driver, readers(1, { range: { start: 5, end: 1000 }, ttlMs: 1000 }))
    const all = await names()
    expect(all.length).toBe(6)
    for (const name of all) expect(Number(await server.cli('PTTL', name))).toBeGreaterThan(1_190_000)
  })

  test('is read as an older version has packed it, and is divided then', async () => {
    const driver = await opened(redis(server.url))
    const now = Date.now()
    const ids = Array.from({ length: 50 }, (_, index) => `reader-${index}`)
    const key = 'file'
    // As the version before wrote a key: all holders in one array.
    const pack = `local holders = {}
for at, id in ipairs(ARGV) do
  holders[at] = { id, 'channel', '["runner",0,"here",1,"client"]', 60000, ${now} + 60000, ${now}, 0, ${now}, ${now}, at,
    at, 0, true, true, false, false, false, false, false, false, 0, false, false, false, false }
end
return redis.call('SET', KEYS[1], cmsgpack.pack({ 2, 50, 0, false, holders }), 'PX', 120000)`
    await claim(driver, claimOf(key))
    const [name] = await names()
    await server.cli('EVAL', pack, '1', present(name), ...ids)
    expect(await ask(driver, { op: 'renew', key, id: 'reader-7', ttlMs: 60_000 })).toMatchObject({
      state: 'held',
      fence: 8,
    })
    expect((await names()).length).toBe(5)
    const { keys } = await driver.list({ key })
    expect(keys[0]?.claims.map(({ id }) => id)).toEqual(ids)
    expect(await claim(driver, claimOf(key, { wait: false }))).toMatchObject({ state: 'absent', reason: 'refused' })
    for (const id of ids) await ask(driver, { op: 'release', key, id })
    expect(await names()).toEqual([])
  })

  test('goes on with the holders that are left, if some of its keys are deleted by hand', async () => {
    const driver = await opened(redis(server.url))
    const claims = readers(10)
    await claimAll(driver, claims)
    const nameOf = async (letter: string): Promise<string> =>
      present((await names()).find((name) => name.includes(`}${letter}:`)))
    await server.cli('DEL', await nameOf('e'))
    expect(await claim(driver, claimOf('file', { wait: false }))).toMatchObject({ reason: 'refused' })
    expect(await renew(driver, present(claims[9]))).toMatchObject({ state: 'held' })
    expect((await names()).length).toBe(5)
    await server.cli('DEL', await nameOf('h'))
    expect(await renew(driver, present(claims[9]))).toMatchObject({ state: 'absent', reason: 'unknown' })
    expect(await claim(driver, claimOf('file', { wait: false }))).toMatchObject({ state: 'held' })
    expect((await names()).length).toBe(1)
  })
})

/** Rewrites a key with many holders as the version before packed it: all holders in its record. ARGV: a holder to leave behind. */
const packingAsBefore = `local name, head = KEYS[1], cmsgpack.unpack(redis.call('GET', KEYS[1]))
if #head < 8 then return end
local function own(letter) return (string.gsub(name, '}k:', '}' .. letter .. ':', 1)) end
local holders = {}
for _, id in ipairs(redis.call('ZRANGE', own('g'), 0, -1)) do
  if id ~= ARGV[1] then holders[#holders + 1] = cmsgpack.unpack(redis.call('HGET', own('h'), id)) end
end
redis.call('SET', name, cmsgpack.pack({ 2, head[2], head[3], head[4], holders }), 'KEEPTTL')
if ARGV[1] == '' then redis.call('DEL', own('h'), own('e'), own('s'), own('g'), own('r')) end`

async function packAsBefore(leftBehind = ''): Promise<void> {
  const record = present((await names()).find((name) => name.includes('}k:')))
  await server.cli('EVAL', packingAsBefore, '1', record, leftBehind)
}

describe('a key that an older version has packed', () => {
  test('keeps its holders, whatever is asked first', async () => {
    const driver = await opened(redis(server.url))
    const asks: readonly ((first: Claim) => Promise<ClaimStatus>)[] = [
      () => claim(driver, claimOf('file', { wait: false })),
      () => claim(driver, claimOf('file', { mode: 'shared' })),
      (first) => release(driver, first),
      (first) => ask(driver, { op: 'withdraw', key: 'file', id: first.id }),
      () => ask(driver, { op: 'evict', key: 'file', fence: 1, reason: 'nobody' }),
      () => renew(driver, claimOf('file')),
    ]
    for (const first of asks) {
      await server.cli('FLUSHALL')
      const claims = readers(9)
      await claimAll(driver, claims)
      await packAsBefore()
      await first(present(claims[0]))
      expect(await claim(driver, claimOf('file', { wait: false }))).toMatchObject({ reason: 'refused' })
      const statuses = await driver.send(claims.slice(1).map(({ key, id, ttlMs }) => ({ op: 'renew', key, id, ttlMs })))
      expect(statuses.every(({ state }) => state === 'held')).toBe(true)
    }
  })

  test('ends holders whose time is over with the first request', async () => {
    let now = Date.now()
    const driver = await opened(redis({ url: server.url, clockForTests: () => now }))
    await claimAll(driver, readers(9, { ttlMs: 1000 }))
    await packAsBefore()
    now += 1000
    expect(await claim(driver, claimOf('file', { wait: false }))).toMatchObject({ state: 'held' })
  })

  test('takes no holder from keys that were left behind', async () => {
    const driver = await opened(redis(server.url))
    const [ghost, ...claims] = readers(9) as [Claim, ...Claim[]]
    await claimAll(driver, [ghost, ...claims])
    await packAsBefore(ghost.id)
    expect(await renew(driver, ghost)).toMatchObject({ state: 'absent' })
    expect((await driver.list({ key: 'file' })).keys[0]?.claims.length).toBe(8)
  })
})

describe('a conversion, once the holders get keys of their own', () => {
  test('is granted when another leaves, though its own lease has just moved there', async () => {
    const driver = await opened(redis(server.url))
    const on = (start: number, end: number, wish: Partial<Claim> = {}): Claim =>
      claimOf('file', { mode: 'shared', range: { start, end }, ...wish })
    const [left, both, writer] = [on(0, 8), on(0, 16), on(32, 64, { mode: 'exclusive' })]
    await claimAll(driver, [left, both, writer])
    const upgrade = on(0, 8, { mode: 'exclusive', replaces: left.id })
    const away = on(32, 40, { mode: 'exclusive', replaces: both.id })
    for (const each of [upgrade, away, on(40, 48), on(48, 56)]) {
      expect(await claim(driver, each)).toMatchObject({ state: 'waiting' })
    }
    // Frees the right: one conversion moves there, the readers follow, and the other conversion has the left for itself.
    await release(driver, writer)
    const claims = (await driver.list({ key: 'file' })).keys[0]?.claims ?? []
    expect(claims.map(({ state }) => state)).toEqual(['held', 'held', 'held', 'held'])
  })

  test('does not count its own permit', async () => {
    const driver = await opened(redis(server.url))
    const claims = readers(4, { limit: 4, range: { start: 0, end: 8 } })
    await claimAll(driver, claims)
    await packAsBefore()
    const replaces = present(claims[0]).id
    const moved = claimOf('file', { mode: 'shared', limit: 4, range: { start: 0, end: 9 }, replaces, wait: false })
    expect(await claim(driver, moved)).toMatchObject({ state: 'held' })
  })
})

describe('a key with many holders that has lost one of its keys', () => {
  test.each(['e', 's', 'g', 'r'])('lets nobody in beside a holder without %s', async (letter) => {
    const driver = await opened(redis(server.url))
    const range = (start: number): Partial<Claim> => ({ mode: 'exclusive', range: { start, end: start + 10 } })
    const claims = [0, 10, 20, 30, 40].map((start) => claimOf('file', range(start)))
    await claimAll(driver, claims)
    const lose = async (): Promise<void> => {
      await server.cli('DEL', present((await names()).find((name) => name.includes(`}${letter}:`))))
    }
    await lose()
    expect(await claim(driver, claimOf('file', { ...range(5), wait: false }))).toMatchObject({ reason: 'refused' })
    expect((await names()).length).toBe(6)
    await lose()
    expect(await claim(driver, claimOf('file', { evict: 'all' }))).toMatchObject({ state: 'held' })
    const statuses = await driver.send(claims.map(({ key, id, ttlMs }) => ({ op: 'renew', key, id, ttlMs })))
    expect(statuses.every(({ state }) => state === 'absent')).toBe(true)
  })
})

describe('a key with many holders whose slot migrates', () => {
  afterEach(() => cluster.empty())

  test.each([
    ['the whole key', undefined],
    ['a range', { start: 0, end: 8 }],
  ])('is renewed, claimed and released on the old node while they hold %s', async (_, range) => {
    const [node] = cluster.startNodes
    const driver = await opened(redis(`redis-cluster://${node?.host}:${node?.port}`))
    const claims = readers(6, { range })
    await claimAll(driver, claims.slice(0, 5))
    const move = await SlotMove.begin(cluster, await recordOnCluster())
    try {
      // Longer than so far, so that the keys must be kept for longer.
      for (const each of claims.slice(0, 5)) {
        expect(await renew(driver, { ...each, ttlMs: 600_000 })).toMatchObject({ state: 'held' })
      }
      expect(await claim(driver, present(claims[5]))).toMatchObject({ state: 'held' })
      for (const each of claims.slice(0, 4)) {
        expect(await release(driver, each)).toMatchObject({ state: 'absent', reason: 'released' })
      }
      expect(await release(driver, present(claims[4]))).toMatchObject({ state: 'absent', reason: 'released' })
      expect(await renew(driver, present(claims[5]))).toMatchObject({ state: 'held' })
    } finally {
      await move.end()
    }
  })

  test('keeps its holders though one of its keys was lost', async () => {
    const [node] = cluster.startNodes
    const driver = await opened(redis(`redis-cluster://${node?.host}:${node?.port}`))
    const claims = readers(5, { range: { start: 0, end: 8 } })
    await claimAll(driver, claims)
    const record = await recordOnCluster()
    const primary = await cluster.primaryOf(record)
    // Fewer members than holders, and no key is missing.
    await primary.cli('ZREM', record.replace('}k:', '}e:'), present(claims[0]).id)
    const move = await SlotMove.begin(cluster, record)
    try {
      expect(await claim(driver, claimOf('file', { wait: false }))).toMatchObject({ state: 'unknown' })
    } finally {
      await move.end()
    }
    expect(await claim(driver, claimOf('file', { wait: false }))).toMatchObject({ reason: 'refused' })
    for (const each of claims) expect(await renew(driver, each)).toMatchObject({ state: 'held' })
  })

  async function recordOnCluster(): Promise<string> {
    const all = await Promise.all(cluster.servers.map((each) => each.cli('KEYS', '*}k:file')))
    return present(all.find((name) => name !== ''))
  }
})

describe('the rule in Lua, on keys with many holders', () => {
  const runs = rounds(12, 40)
  const steps = 150
  const mix: RequestMix = {
    ids: 40,
    ranged: [0, 0.5, 0.9],
    exclusive: 0.1,
    waiting: 0.7,
    claims: 0.55,
    starts: [20, 2000],
    lengths: [1, 4, 300],
    ttlsMs: [1000, 5000, 20_000, 60_000],
  }

  test(
    'answers as the rule does, also when the clock is set back or an older version has packed the key',
    { timeout: 120_000 },
    async () => {
      let crowded = 0
      for (let seed = 1; seed <= runs; seed += 1) {
        const disturb = async (held: number, _waiting: number, chance: number): Promise<void> => {
          if (held > 3 && chance < 0.03) await packAsBefore()
        }
        const { crowdsOfHolders } = await playRandomRequests(seed, steps, mix, { url: server.url, disturb, many: 3 })
        crowded += crowdsOfHolders
        await server.cli('FLUSHALL')
      }
      expect(crowded).toBeGreaterThan((runs * steps) / 4)
    },
  )

  test('answers so on a cluster', { timeout: 120_000 }, async () => {
    const [node] = cluster.startNodes
    for (let seed = 101; seed <= rounds(103, 110); seed += 1) {
      await playRandomRequests(seed, steps, mix, { url: `redis-cluster://${node?.host}:${node?.port}`, many: 3 })
      await cluster.empty()
    }
  })
})
