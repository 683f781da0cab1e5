/** Keys with many waiters on ranges, for which Redis keeps an index: what a request costs, and that the rule stays the same. */
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

/** The letters that tell names of one key apart. */
async function letters(): Promise<string> {
  return (await names()).map((name) => present(/\}(.):/.exec(name)?.[1])).join('')
}

async function nameOf(letter: string): Promise<string> {
  return present((await names()).find((name) => name.includes(`}${letter}:`)))
}

/** A claim on ten bytes, from ten times this number on. */
function onRange(number: number, wish: Partial<Claim> = {}): Claim {
  return claimOf('file', { range: { start: 10 * number, end: 10 * number + 10 }, ...wish })
}

/** Sends claims, of which all must have this status. */
async function claimAll(driver: LockDriver, claims: readonly Claim[], state: ClaimStatus['state']): Promise<void> {
  for (let from = 0; from < claims.length; from += 200) {
    const statuses = await driver.send(claims.slice(from, from + 200).map((each) => claiming(each)))
    expect(statuses.map((status) => status.state)).toEqual(statuses.map(() => state))
  }
}

/** As many ranges, each with a holder and a waiter. */
async function contend(
  driver: LockDriver,
  count: number,
  wish: Partial<Claim> = {},
): Promise<{ readonly holders: readonly Claim[]; readonly waiters: readonly Claim[] }> {
  const claims = (): readonly Claim[] => Array.from({ length: count }, (_, number) => onRange(number, wish))
  const [holders, waiters] = [claims(), claims()]
  await claimAll(driver, holders, 'held')
  await claimAll(driver, waiters, 'waiting')
  return { holders, waiters }
}

/** The ids of the claims of the key in a state, in their order. */
async function idsOf(driver: LockDriver, state: 'held' | 'waiting'): Promise<readonly string[]> {
  const claims = (await driver.list({ key: 'file' })).keys[0]?.claims ?? []
  return claims.filter((each) => each.state === state).map(({ id }) => id)
}

function ids(claims: readonly Claim[]): readonly string[] {
  return claims.map(({ id }) => id)
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

describe('a request beside many waiters on other ranges', () => {
  test('takes the same commands beside 1,000 as beside 20', { timeout: 60_000 }, async () => {
    const driver = await opened(redis(server.url))
    const costOf = async (count: number): Promise<Readonly<Record<string, number>>> => {
      await server.cli('FLUSHALL')
      const { holders, waiters } = await contend(driver, count)
      // Once, so that Redis knows the script.
      await renew(driver, present(waiters[1]))
      const middle = count / 2
      return commandsOf(async () => {
        expect(await renew(driver, present(waiters[middle]))).toMatchObject({ state: 'waiting' })
        expect(await claim(driver, onRange(middle))).toMatchObject({ state: 'waiting' })
        expect(await claim(driver, onRange(middle, { wait: false }))).toMatchObject({ reason: 'refused' })
        expect(await release(driver, present(holders[middle]))).toMatchObject({ reason: 'released' })
        expect(await renew(driver, present(waiters[middle]))).toMatchObject({ state: 'held' })
        expect(await release(driver, present(waiters[middle - 1]))).toMatchObject({ reason: 'released' })
      })
    }
    expect(await costOf(1000)).toEqual(await costOf(20))
  })

  test('takes the same commands whether 2,000 or 200 wait for the range', { timeout: 60_000 }, async () => {
    const driver = await opened(redis(server.url))
    const costOf = async (count: number): Promise<Readonly<Record<string, number>>> => {
      await server.cli('FLUSHALL')
      const claims = Array.from({ length: count + 1 }, () => onRange(0))
      await claim(driver, present(claims[0]))
      await claimAll(driver, claims.slice(1), 'waiting')
      // Once, so that Redis knows the script.
      await release(driver, present(claims[0]))
      const commands = await commandsOf(async () => {
        for (const each of claims.slice(1, 5)) {
          expect(await release(driver, each)).toMatchObject({ reason: 'released' })
        }
      })
      expect(await idsOf(driver, 'held')).toEqual([claims[5]?.id])
      return commands
    }
    expect(await costOf(2000)).toEqual(await costOf(200))
  })
})

describe('a key with many waiters', () => {
  test('leaves nothing behind, and no index once few wait', async () => {
    const driver = await opened(redis(server.url))
    const { holders, waiters } = await contend(driver, 20)
    expect(await letters()).toBe('beghikqrswx')
    for (const each of waiters.slice(2)) await release(driver, each)
    expect(await letters()).toBe('eghkqrsw')
    expect(await idsOf(driver, 'waiting')).toEqual(ids(waiters.slice(0, 2)))
    for (const each of [...holders, ...waiters]) await release(driver, each)
    expect(await names()).toEqual([])
  })

  test('gets no index while they wait for the whole key', async () => {
    const driver = await opened(redis(server.url))
    await claimAll(driver, [claimOf('file')], 'held')
    await claimAll(
      driver,
      Array.from({ length: 20 }, () => claimOf('file')),
      'waiting',
    )
    await claimAll(driver, [onRange(0), onRange(1)], 'waiting')
    expect(await letters()).toBe('kqw')
  })

  test('keeps each of its keys at least one ttl beyond the last lease', async () => {
    const driver = await opened(redis(server.url))
    const { waiters } = await contend(driver, 12)
    await renew(driver, { ...present(waiters[3]), ttlMs: 600_000 })
    await claim(driver, onRange(1, { ttlMs: 1000 }))
    for (const letter of 'kqwixb') {
      expect(Number(await server.cli('PTTL', await nameOf(letter)))).toBeGreaterThan(1_190_000)
    }
  })

  test('drops a crowd of waiters whose time is over, and grants those behind them', async () => {
    let now = Date.now()
    const driver = await opened(redis({ url: server.url, clockForTests: () => now }))
    const holder = onRange(0, { range: { start: 0, end: 10_000 } })
    await claim(driver, holder)
    await claimAll(
      driver,
      Array.from({ length: 1500 }, (_, number) => onRange(number % 700, { ttlMs: 1000 })),
      'waiting',
    )
    const patient = [onRange(3), onRange(650), onRange(650)]
    await claimAll(driver, patient, 'waiting')
    now += 1000
    expect(await release(driver, holder)).toMatchObject({ reason: 'released' })
    expect(await idsOf(driver, 'held')).toEqual(ids(patient.slice(0, 2)))
    expect(await idsOf(driver, 'waiting')).toEqual(ids(patient.slice(2)))
    expect(await letters()).toBe('kqw')
  })

  test('cuts all leases of waiters, if the clock was set back', async () => {
    let now = Date.now()
    const driver = await opened(redis({ url: server.url, clockForTests: () => now }))
    const { waiters } = await contend(driver, 20, { ttlMs: 5000 })
    now -= 3_600_000
    await claim(driver, onRange(100))
    now += 5000
    expect(await claim(driver, onRange(5, { wait: false }))).toMatchObject({ state: 'held' })
    for (const each of waiters) expect(await renew(driver, each)).toMatchObject({ state: 'absent' })
  })

  test('lets nobody pass a waiter for the whole key', async () => {
    const driver = await opened(redis(server.url))
    const { holders, waiters } = await contend(driver, 20)
    const whole = claimOf('file')
    const behind = [onRange(50), onRange(51)]
    await claimAll(driver, [whole, ...behind], 'waiting')
    await release(driver, present(holders[7]))
    expect(await renew(driver, present(waiters[7]))).toMatchObject({ state: 'held' })
    expect(await renew(driver, present(behind[0]))).toMatchObject({ state: 'waiting', ahead: 20 })
    await release(driver, whole)
    for (const each of behind) expect(await renew(driver, each)).toMatchObject({ state: 'held' })
  })
})

/** Rewrites a key with an index as the version before had it: its record without the mark of the index, and no index. */
const storingAsBefore = `local name, head = KEYS[1], cmsgpack.unpack(redis.call('GET', KEYS[1]))
if #head < 9 then return end
local function own(letter) return (string.gsub(name, '}k:', '}' .. letter .. ':', 1)) end
local before = { 2, head[2], head[3], head[4], head[5] }
if head[8] then before = { 3, head[2], head[3], head[4], head[5], head[6], head[7], head[8] } end
redis.call('SET', name, cmsgpack.pack(before), 'KEEPTTL')
if ARGV[1] == '' then redis.call('DEL', own('i'), own('x'), own('b')) end`

async function storeAsBefore(leaveIndex = ''): Promise<void> {
  await server.cli('EVAL', storingAsBefore, '1', await nameOf('k'), leaveIndex)
}

describe('a key with many waiters of an older version', () => {
  test.each([
    ['', 'no index'],
    ['left', 'an index that was left behind'],
  ])('keeps its holders and waiters, whatever is asked first (%s%s)', async (leaveIndex) => {
    const driver = await opened(redis(server.url))
    const asks: readonly ((holder: Claim, waiter: Claim) => Promise<ClaimStatus>)[] = [
      () => claim(driver, onRange(3, { wait: false })),
      () => claim(driver, onRange(3)),
      () => claim(driver, claimOf('file')),
      (_, waiter) => renew(driver, waiter),
      (holder) => renew(driver, holder),
      (holder) => release(driver, holder),
      (_, waiter) => ask(driver, { op: 'withdraw', key: 'file', id: waiter.id }),
      () => ask(driver, { op: 'evict', key: 'file', fence: 1, reason: 'nobody' }),
    ]
    for (const count of [2, 12]) {
      for (const first of asks) {
        await server.cli('FLUSHALL')
        const holders = Array.from({ length: count }, (_, number) => onRange(number))
        await claimAll(driver, holders, 'held')
        const waiters = Array.from({ length: 24 }, (_, number) => onRange(number % count))
        await claimAll(driver, waiters, 'waiting')
        await storeAsBefore(leaveIndex)
        await first(present(holders[0]), present(waiters[0]))
        for (const [at, holder] of [...holders.entries()].slice(1)) {
          expect(await renew(driver, holder)).toMatchObject({ state: 'held' })
          expect(await renew(driver, present(waiters[at]))).toMatchObject({ state: 'waiting' })
        }
        const waiting = await idsOf(driver, 'waiting')
        expect(waiting.filter((id) => ids(waiters.slice(1)).includes(id))).toEqual(ids(waiters.slice(1)))
        await release(driver, present(holders[1]))
        expect(await renew(driver, present(waiters[1]))).toMatchObject({ state: 'held' })
        expect(await letters()).toContain('x')
      }
    }
  })

  test('has its index made once, not by each request', async () => {
    const driver = await opened(redis(server.url))
    const { waiters } = await contend(driver, 20)
    await storeAsBefore()
    await renew(driver, present(waiters[0]))
    const commands = await commandsOf(() => renew(driver, present(waiters[1])))
    expect(commands).not.toHaveProperty('hgetall')
  })
})

describe('a key with many waiters that has lost a part of what it keeps of them', () => {
  test.each(['i', 'x', 'b', 'q'])('loses no waiter and lets nobody pass without %s', async (letter) => {
    const driver = await opened(redis(server.url))
    const { holders, waiters } = await contend(driver, 20)
    await server.cli('DEL', await nameOf(letter))
    expect(await release(driver, present(holders[4]))).toMatchObject({ reason: 'released' })
    expect(await renew(driver, present(waiters[4]))).toMatchObject({ state: 'held' })
    await server.cli('DEL', await nameOf(letter))
    expect(await claim(driver, onRange(4, { wait: false }))).toMatchObject({ reason: 'refused' })
    expect(await letters()).toBe('beghikqrswx')
    expect(await idsOf(driver, 'waiting')).toEqual(ids(waiters.filter((_, at) => at !== 4)))
  })

  test.each(['i', 'x', 'b', 'q'])('finds a waiter again that is missing in %s', async (letter) => {
    const driver = await opened(redis(server.url))
    const { holders, waiters } = await contend(driver, 20)
    const name = await nameOf(letter)
    const members = (await server.cli('ZRANGE', name, '0', '-1')).split('\n')
    await server.cli('ZREM', name, present(members.find((member) => member.includes(present(waiters[4]).id))))
    await release(driver, present(holders[4]))
    expect(await renew(driver, present(waiters[4]))).toMatchObject({ state: 'held' })
  })

  test('goes on with the records that are left and can be read', async () => {
    const driver = await opened(redis(server.url))
    const { holders, waiters } = await contend(driver, 20)
    const name = await nameOf('w')
    await server.cli('HDEL', name, present(waiters[3]).id)
    await server.cli('HSET', name, present(waiters[4]).id, 'garbage')
    for (const at of [3, 4, 5]) await release(driver, present(holders[at]))
    expect(await renew(driver, present(waiters[5]))).toMatchObject({ state: 'held' })
    for (const at of [3, 4]) {
      expect(await renew(driver, present(waiters[at]))).toMatchObject({ state: 'absent' })
      expect(await claim(driver, onRange(at))).toMatchObject({ state: 'held' })
    }
    await server.cli('DEL', name)
    expect(await claim(driver, onRange(7))).toMatchObject({ state: 'waiting', ahead: 0 })
    await release(driver, present(holders[7]))
    expect((await idsOf(driver, 'waiting')).length).toBe(0)
    expect(await letters()).toBe('eghkrs')
  })

  test('ends no waiter whose end is wrong in the index', async () => {
    const driver = await opened(redis(server.url))
    const { waiters } = await contend(driver, 20)
    await server.cli('ZADD', await nameOf('x'), '1', present(waiters[4]).id)
    await claim(driver, onRange(30))
    expect(await idsOf(driver, 'waiting')).toEqual(ids(waiters))
    expect(Number(await server.cli('ZSCORE', await nameOf('x'), present(waiters[4]).id))).toBeGreaterThan(1)
  })
})

describe('a key with many waiters whose slot migrates', () => {
  afterEach(() => cluster.empty())

  const [node] = cluster.startNodes
  const url = `redis-cluster://${node?.host}:${node?.port}`

  async function recordOnCluster(): Promise<string> {
    const all = await Promise.all(cluster.servers.map((each) => each.cli('KEYS', '*}k:file')))
    return present(all.find((name) => name !== ''))
  }

  test('serves all requests on the old node as long as all of its keys are there', async () => {
    const driver = await opened(redis(url))
    const { holders, waiters } = await contend(driver, 20)
    const move = await SlotMove.begin(cluster, await recordOnCluster())
    try {
      expect(await renew(driver, { ...present(waiters[1]), ttlMs: 600_000 })).toMatchObject({ state: 'waiting' })
      expect(await claim(driver, onRange(2))).toMatchObject({ state: 'waiting' })
      await release(driver, present(holders[3]))
      expect(await renew(driver, present(waiters[3]))).toMatchObject({ state: 'held' })
      // Down to a few, so that the index is dropped.
      for (const each of waiters.slice(4)) await release(driver, each)
    } finally {
      await move.end()
    }
    expect((await idsOf(driver, 'waiting')).length).toBe(4)
    expect(await renew(driver, present(waiters[1]))).toMatchObject({ state: 'waiting' })
  })

  test.each(['k', 'q', 'w', 'i', 'x', 'b'])('loses nobody if %s goes first', async (letter) => {
    const driver = await opened(redis(url))
    const { holders, waiters } = await contend(driver, 20)
    const move = await SlotMove.begin(cluster, await recordOnCluster())
    try {
      await move.move(new RegExp(`\\}${letter}:`))
      expect(await renew(driver, present(waiters[1]))).toMatchObject({ state: 'unknown' })
      expect(await claim(driver, onRange(2))).toMatchObject({ state: 'unknown' })
    } finally {
      await move.end()
    }
    expect(await idsOf(driver, 'waiting')).toEqual(ids(waiters))
    await release(driver, present(holders[5]))
    expect(await renew(driver, present(waiters[5]))).toMatchObject({ state: 'held' })
  })

  test('makes no index meanwhile, and keeps its waiters though the index is damaged', async () => {
    const driver = await opened(redis(url))
    const { holders, waiters } = await contend(driver, 20)
    const record = await recordOnCluster()
    const primary = await cluster.primaryOf(record)
    await primary.cli('ZREM', record.replace('}k:', '}x:'), present(waiters[0]).id)
    const move = await SlotMove.begin(cluster, record)
    try {
      await release(driver, present(holders[5]))
      expect(await renew(driver, present(waiters[5]))).toMatchObject({ state: 'held' })
      expect(await renew(driver, present(waiters[0]))).toMatchObject({ state: 'waiting' })
      expect(await primary.cli('EXISTS', record.replace('}k:', '}x:'))).not.toBe('1')
    } finally {
      await move.end()
    }
    for (const each of waiters.slice(6)) expect(await renew(driver, each)).toMatchObject({ state: 'waiting' })
    expect(await (await cluster.primaryOf(record)).cli('EXISTS', record.replace('}k:', '}x:'))).toBe('1')
  })
})

describe('the rule in Lua, on keys with many waiters', () => {
  const steps = 200
  const mixes: Readonly<Record<string, RequestMix>> = {
    'ranges that overlap': {
      ids: 60,
      ranged: [0.9, 0.97, 1],
      exclusive: 0.6,
      waiting: 0.95,
      claims: 0.6,
      starts: [20, 200],
      lengths: [1, 4, 30, 300],
      ttlsMs: [2000, 20_000, 60_000],
    },
    'few different ranges': {
      ids: 60,
      ranged: [0.95, 1],
      exclusive: 0.5,
      waiting: 1,
      claims: 0.6,
      starts: [4],
      lengths: [1, 2],
      ttlsMs: [1000, 20_000, 60_000],
    },
    'readers of all': {
      ids: 60,
      ranged: [0.5, 0.7],
      exclusive: 0.2,
      waiting: 0.95,
      claims: 0.6,
      starts: [20, 2000],
      lengths: [4, 300],
      ttlsMs: [5000, 60_000],
    },
  }
  const runs = rounds(5, 20)

  test.each(Object.entries(mixes))(
    'answers as the rule does, whatever happens to the index: %s',
    { timeout: 180_000 },
    async (_, mix) => {
      let crowded = 0
      for (let seed = 1; seed <= runs; seed += 1) {
        const disturb = async (_held: number, waiting: number, chance: number): Promise<void> => {
          if (waiting === 0 || chance >= 0.04 || !(await letters()).includes('x')) return
          if (chance < 0.02) await storeAsBefore()
          else await server.cli('DEL', await nameOf('ixbq'.charAt(Math.floor((chance - 0.02) * 200))))
        }
        const stage = { url: server.url, disturb, many: 8 }
        crowded += (await playRandomRequests(seed, steps, mix, stage)).crowdsOfWaiters
        await server.cli('FLUSHALL')
      }
      expect(crowded).toBeGreaterThan((runs * steps) / 4)
    },
  )

  test('answers so on a cluster that migrates the slot', { timeout: 180_000 }, async () => {
    const [node] = cluster.startNodes
    const url = `redis-cluster://${node?.host}:${node?.port}`
    for (let seed = 101; seed <= rounds(102, 106); seed += 1) {
      let move: SlotMove | undefined
      const calm = async (): Promise<void> => {
        await move?.end()
        move = undefined
      }
      const disturb = async (_held: number, waiting: number, chance: number): Promise<void> => {
        if (waiting > 8 && chance < 0.1 && move === undefined) {
          const all = await Promise.all(cluster.servers.map((each) => each.cli('KEYS', '*}k:file')))
          const record = all.find((name) => name !== '')
          if (record !== undefined) move = await SlotMove.begin(cluster, record)
        } else if (move !== undefined && chance > 0.9)
          await move.move(new RegExp(`\\}[${'kqwixbhesgr'.charAt(Math.floor((chance - 0.9) * 110))}]:`))
        else if (chance > 0.8) await calm()
      }
      await playRandomRequests(seed, steps, present(mixes['ranges that overlap']), { url, disturb, calm, many: 8 })
      await calm()
      await cluster.empty()
    }
  })
})
