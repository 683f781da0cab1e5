/** Every number × every way in: it works, or it is refused with INVALID or UNSUPPORTED; and nothing is poisoned by it. */
import { describe, expect, onTestFinished, test } from 'vitest'
import { createLocks } from '../../src/api/create-locks.ts'
import type { Locks } from '../../src/api/locks.ts'
import type { LeaseProof } from '../../src/api/lease/proof.ts'
import { Batcher, submitOnce } from '../../src/core/client/batcher.ts'
import type { Claim, LockDriver, Request, ClaimStatus, Supports } from '../../src/core/contract/driver.ts'
import { fullSupport } from '../../src/core/contract/supports.ts'
import { limitFault } from '../../src/core/contract/limits.ts'
import { metadataFault, yearMs } from '../../src/core/contract/bounds.ts'
import { checkedAnswer, checkedNotification } from '../../src/core/contract/status-check.ts'
import { systemEnvironment } from '../../src/core/time/environment.ts'
import { pageIn, statusesIn, storeIn } from '../../src/core/wire/replies.ts'
import { dynamodb } from '../../src/drivers/dynamodb/driver.ts'
import { etcd } from '../../src/drivers/etcd/driver.ts'
import { s3 } from '../../src/drivers/s3/driver.ts'
import { github } from '../../src/drivers/github/driver.ts'
import { http } from '../../src/drivers/http/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { mongodb } from '../../src/drivers/mongodb/driver.ts'
import { nats } from '../../src/drivers/nats/driver.ts'
import { mysql } from '../../src/drivers/mysql/driver.ts'
import { postgresAdvisory } from '../../src/drivers/postgres-advisory/driver.ts'
import { postgres } from '../../src/drivers/postgres/driver.ts'
import { quorum } from '../../src/drivers/quorum/driver.ts'
import { redis } from '../../src/drivers/redis/driver.ts'
import { sqlite } from '../../src/drivers/sqlite/driver.ts'
import { callBody } from '../../src/core/wire/requests.ts'
import { checked } from '../../src/core/wire/schema.ts'
import { unsupportedIn } from '../../src/server/store/store-description.ts'
import { scratch } from '../sqlite/scratch.ts'
import { claimOf } from '../support/claims.ts'
import { entries, store } from './limits/entries.ts'

const refused = /^(INVALID|UNSUPPORTED)$/
/** What nothing takes. */
const never = [Number.NaN, Infinity, -Infinity, 2 ** 53]

/** A driver as another one that takes less, and that carries out whatever it is sent. */
function narrow(driver: LockDriver, supports: Partial<Supports> = store): LockDriver {
  return {
    name: 'narrow',
    supports: { ...driver.supports, ...supports },
    open: () => driver.open(),
    send: (requests) => driver.send(requests),
    list: (query) => driver.list(query),
    listen: (onNotification, onGap) => driver.listen?.(onNotification, onGap) ?? { [Symbol.dispose]() {} },
    close: () => driver.close(),
  }
}

async function locksOf(driver: LockDriver): Promise<Locks> {
  const locks = await createLocks({ driver, allowForce: true })
  onTestFinished(() => locks.close())
  return locks
}

/** The code it was refused with; undefined: it works. */
async function refusal(work: () => Promise<unknown>): Promise<string | undefined> {
  try {
    await work()
    return undefined
  } catch (error) {
    return (error as { code?: string }).code ?? String(error)
  }
}

/** Locks of the same name, and of any other, work as if nothing had been. */
async function expectUnharmed(locks: Locks, name: string): Promise<void> {
  for (const each of [name, `${name}-other`]) {
    const lease = await locks.acquire(each, { wait: 0, ttl: '10s' })
    expect((await locks.inspect(each))?.holders).toHaveLength(1)
    await lease.release()
  }
  await locks.list()
  await locks.sweep()
  await locks.stats()
}

describe.each(['memory', 'sqlite'])('over %s', (kind) => {
  const { file } = scratch()
  const open = (): LockDriver => (kind === 'memory' ? memory() : sqlite({ file: file() }))

  test.each(Object.entries(entries))('%s takes what the store takes, and no more', async (_, { most, enter }) => {
    const locks = await locksOf(narrow(open()))
    let names = 0
    const nextName = (): string => `lock-${(names += 1)}`
    expect(await refusal(() => enter(locks, most, nextName())), `${most} is the most`).toBeUndefined()
    for (const value of [...never, -1, -1001, 0, 0.5, most + 1, 2 ** 31, 2 ** 53 - 1]) {
      const name = nextName()
      const code = await refusal(() => enter(locks, value, name))
      const mustRefuse = !Number.isSafeInteger(value) && value !== 0.5 ? true : value > most || value < -1000
      if (mustRefuse) expect(code, `${value} is refused`).toMatch(refused)
      // A millisecond may be over before it is answered.
      else if (value === 0.5) expect(code ?? 'INVALID').toMatch(/^(INVALID|UNSUPPORTED|UNAVAILABLE)$/)
      else expect(code ?? 'INVALID', `${value} works or is refused`).toMatch(refused)
      await expectUnharmed(locks, name)
    }
  })

  test('a renewal for ever is refused, also by a driver whose client does not check', async () => {
    const driver = open()
    onTestFinished(() => driver.close())
    await driver.open()
    const claim = claimOf('default/named:one')
    const { key, id } = claim
    const neighbour = claimOf('default/named:two')
    const statuses = await driver.send([
      { op: 'claim', claim },
      { op: 'renew', key, id, ttlMs: Number.MAX_SAFE_INTEGER },
      { op: 'claim', claim: neighbour },
    ])
    expect(statuses).toMatchObject([
      { state: 'held' },
      { state: 'unknown', error: { code: 'INVALID' } },
      { state: 'held' },
    ])
    expect((await driver.list({})).keys).toHaveLength(2)
  })
})

describe('presets and defaults', () => {
  test('a preset that the store does not take is refused with what to set', async () => {
    const locks = await locksOf(narrow(memory()))
    await expect(locks.acquire('one', { lease: 'batch' })).rejects.toThrow(
      "INVALID: The ttl of lease: 'batch' is 300000 ms. This store takes 1000 to 60000 ms. Set ttl.",
    )
    await (await locks.acquire('one', { lease: 'batch', ttl: '1m', heartbeat: '20s' })).release()
  })

  test('the default ttl of a store that does not take it is refused by connect', async () => {
    const driver = narrow(memory(), { ttlMaxMs: 3000 })
    await expect(createLocks({ driver })).rejects.toThrow('INVALID: The default ttl is 30000 ms.')
    const locks = await createLocks({ driver: narrow(memory(), { ttlMaxMs: 3000 }), defaults: { ttl: '3s' } })
    await locks.close()
    await driver.close()
  })

  test('defaults are held to the same limits', async () => {
    for (const defaults of [{ ttl: '2m' }, { grace: '3m' }, { maxHold: '3m' }, { staleAfter: '3m' }] as const) {
      await expect(createLocks({ driver: narrow(memory()), defaults })).rejects.toThrow('INVALID')
    }
  })
})

describe('a quorum', () => {
  /** Nodes that have been up for long enough to vote. */
  const nodes = (): LockDriver[] =>
    [memory(), memory(), memory()].map((node) => ({ ...narrow(node, {}), dataAgeMs: async () => 3_600_000 }))

  test('renews for no longer than a node takes to vote again, grace included', async () => {
    const locks = await locksOf(quorum(nodes(), { votesAfter: '10s' }))
    const lease = await locks.acquire('one', { ttl: '6s', grace: '3s' })
    await expect(lease.renew('60s')).rejects.toThrow('INVALID: ttl is 60000 ms. This store takes 1 to 10000 ms.')
    await expect(lease.renew('8s')).rejects.toThrow('INVALID: ttl and grace are 11000 ms together.')
    await lease.renew('7s')
    const proof = await lease.handOff()
    expect(proof.graceMs).toBe(3000)
    await expect(locks.resume(proof, { ttl: '8s' })).rejects.toThrow('INVALID: ttl and grace')
    await (await locks.resume(proof)).release()
  })

  test('refuses such a renewal in its driver too, and alone', async () => {
    const driver = quorum(nodes(), { votesAfter: '10s' })
    onTestFinished(() => driver.close())
    await driver.open()
    const claim = claimOf('default/named:one', { ttlMs: 6000, graceMs: 3000 })
    const { key, id } = claim
    expect(await driver.send([{ op: 'claim', claim }])).toMatchObject([{ state: 'held' }])
    const renewal = { op: 'renew', key, id } as const
    const statuses = await driver.send([
      { ...renewal, ttlMs: 60_000 },
      { ...renewal, ttlMs: 8000 },
      { ...renewal, ttlMs: 7000 },
    ])
    expect(statuses.map(({ state }) => state)).toEqual(['unknown', 'unknown', 'held'])
    const long = claimOf('default/named:two', { ttlMs: 8000, graceMs: 3000 })
    expect(await driver.send([{ op: 'claim', claim: long }])).toMatchObject([
      { state: 'unknown', error: { code: 'INVALID' } },
    ])
  })
})

// ---- one request

type Change = (value: number) => Request

const claim = claimOf('default/named:one')
const claiming = (change: (value: number) => Partial<Claim>): Change => {
  return (value) => ({ op: 'claim', claim: { ...claim, ...change(value) } })
}
const renewing = (field: string): Change => {
  return (value) => ({ op: 'renew', key: claim.key, id: claim.id, ttlMs: 5000, [field]: value })
}

/** Every number of a request, with its least and its most. */
const numbers: Readonly<Record<string, readonly [Change, least: number, most: number]>> = {
  'claim.ttlMs': [claiming((ttlMs) => ({ ttlMs })), store.ttlMinMs, store.ttlMaxMs],
  'claim.graceMs': [claiming((graceMs) => ({ graceMs })), 0, store.durationMaxMs],
  'claim.maxHoldMs': [claiming((maxHoldMs) => ({ maxHoldMs })), 1, store.durationMaxMs],
  'claim.staleMs': [claiming((staleMs) => ({ evict: 'stale', staleMs })), 0, store.durationMaxMs],
  'claim.priority': [claiming((priority) => ({ priority })), -1000, 1000],
  'claim.limit': [claiming((limit) => ({ mode: 'shared', limit })), 1, 2 ** 31 - 1],
  'claim.range.start': [claiming((start) => ({ range: { start, end: 2 ** 53 - 1 } })), 0, 2 ** 53 - 2],
  'claim.range.end': [claiming((end) => ({ range: { start: 0, end } })), 1, 2 ** 53 - 1],
  'claim.runner.pid': [claiming((pid) => ({ runner: { ...claim.runner, pid } })), 0, 2 ** 53 - 1],
  'renew.ttlMs': [renewing('ttlMs'), store.ttlMinMs, store.ttlMaxMs],
  'renew.fenceFloor': [renewing('fenceFloor'), 0, 2 ** 53 - 2 ** 50],
  'evict.fence': [(fence) => ({ op: 'evict', key: claim.key, fence, reason: 'stuck' }), 0, 2 ** 53 - 1],
}

const supports: Supports = { ...fullSupport, ...store }

describe.each(Object.entries(numbers))('%s', (_, [request, least, most]) => {
  const candidates = [...never, -1, 0, 0.5, 1, least, least - 1, most, most + 1, 2 ** 31, 2 ** 53 - 1]
  const isValid = (value: number): boolean => Number.isSafeInteger(value) && value >= least && value <= most

  test.each([...new Set(candidates)])('as %s', async (value) => {
    const asked = request(value)
    const fault = limitFault(asked, supports)
    expect(fault === undefined).toBe(isValid(value))
    // The batcher, before a driver that would carry out anything.
    const sent: Request[] = []
    const status: ClaimStatus = { state: 'absent', reason: 'unknown' }
    const send: LockDriver['send'] = async (requests) => (sent.push(...requests), requests.map(() => status))
    const batcher = new Batcher({ supports, send }, systemEnvironment())
    const neighbour: Request = { op: 'release', key: 'default/named:two', id: 'neighbour' }
    const answers = await Promise.all([submitOnce(batcher, neighbour), submitOnce(batcher, asked)])
    expect(answers[0]).toBe(status)
    if (isValid(value)) expect(answers[1]).toBe(status)
    else expect(answers[1]).toMatchObject({ state: 'unknown', error: { code: 'INVALID' } })
    expect(sent).toEqual(isValid(value) ? [asked, neighbour] : [neighbour])
    await batcher.settled()
    // The body of a call to a server. JSON has no NaN: null stands for it, and for Infinity.
    const body: unknown = JSON.parse(JSON.stringify({ requests: [asked] }))
    const read = (): void => {
      for (const each of checked(callBody(1), body).requests) {
        const error = unsupportedIn(each, 0, supports)
        if (error !== undefined) throw error
      }
    }
    if (isValid(value)) read()
    else expect(read).toThrow(/^INVALID/)
  })
})

test.each(['', 'x'.repeat(5000), 'a\0b', '\ud800', 7, null])('the text %j is refused wherever it stands', (bad) => {
  const text = bad as string
  const { runner } = claim
  const place = { key: claim.key, id: claim.id }
  const changes = [
    { key: text },
    { id: text },
    { replaces: text },
    ...['id', 'incarnation', 'client'].map((name) => ({ runner: { ...runner, [name]: text } })),
  ]
  const requests: Request[] = [
    ...changes.map((change): Request => ({ op: 'claim', claim: { ...claim, ...change } })),
    { op: 'renew', ...place, id: text, ttlMs: 5000 },
    { op: 'release', ...place, key: text },
    { op: 'withdraw', ...place, id: text },
    { op: 'evict', key: text, fence: 1, reason: 'stuck' },
  ]
  for (const request of requests)
    expect(limitFault(request, supports), JSON.stringify(request)).toMatchObject({ code: 'INVALID' })
})

test('a request that is none is refused like any other', () => {
  for (const request of [null, undefined, 7, {}, { op: 'steal' }]) {
    expect(limitFault(request as unknown as Request, supports)).toMatchObject({ code: 'INVALID', field: 'op' })
  }
})

test('metadata is measured without being written, and as exactly as if it were', () => {
  const fits = { long: 'x'.repeat(17_408 - '{"long":""}'.length) }
  expect(metadataFault(fits)).toBeUndefined()
  expect(metadataFault({ long: `${fits.long}x` })).toMatch(/17408 bytes/)
  expect(metadataFault({ long: '\u0001'.repeat(2899) })).toBeUndefined()
  expect(metadataFault({ long: '\u0001'.repeat(2900) })).toMatch(/17408 bytes/)
  expect(metadataFault({ when: new Date(0), list: [1, null, { deep: true }] })).toBeUndefined()
  expect(metadataFault({ big: 1n })).toMatch(/bytes of JSON/)
  const endless: Record<string, unknown> = {}
  endless['self'] = endless
  expect(metadataFault(endless)).toMatch(/nested at most 64/)
  // Each level is there twice: 2^60 objects, which nobody must walk through.
  let twice: unknown = 'x'
  for (let level = 0; level < 60; level += 1) twice = [twice, twice]
  expect(metadataFault({ twice })).toMatch(/17408 bytes/)
})

// ---- what comes back

describe('an answer of a driver', () => {
  test('to a renewal says no more than was asked for, and no lease lasts longer than a year', () => {
    const unbounded = { ...memory().supports, ttlMaxMs: Infinity }
    const longer = { state: 'held', fence: 1, ttlMs: 2 * yearMs } as const
    const renewal = { op: 'renew', key: 'default/named:a', id: 'one', ttlMs: 10_000 } as const
    expect(checkedAnswer(longer, renewal, unbounded)).toEqual({ ...longer, ttlMs: 10_000 })
    expect(checkedNotification(longer, unbounded)).toEqual({ ...longer, ttlMs: yearMs })
    expect(limitFault({ ...renewal, ttlMs: yearMs }, unbounded)).toBeUndefined()
    expect(limitFault({ ...renewal, ttlMs: yearMs + 1 }, unbounded)).toMatchObject({ code: 'INVALID', field: 'ttlMs' })
  })

  const bad = [...never, -1]

  /** A store that answers every claim and renewal with this. */
  function answering(status: unknown): LockDriver {
    const driver = narrow(memory())
    return { ...driver, send: async (requests) => requests.map(() => status as ClaimStatus) }
  }

  test.each([...bad, 0, 0.5])('with the fence %s grants nothing', async (fence) => {
    const locks = await locksOf(answering({ state: 'held', fence, ttlMs: 30_000 }))
    await expect(locks.tryAcquire('one')).rejects.toMatchObject({ code: 'INVALID' })
  })

  test.each(bad)('with %s ms left grants nothing', async (ttlMs) => {
    const locks = await locksOf(answering({ state: 'held', fence: 1, ttlMs }))
    const code = await refusal(() => locks.tryAcquire('one'))
    if (ttlMs !== 2 ** 53) expect(code).toBe('INVALID')
  })

  test.each([60_001, 2 ** 31, 2 ** 53 - 1, 2 ** 53])('with %s ms left is trusted for what was asked', async (ttlMs) => {
    const locks = await locksOf(answering({ state: 'held', fence: 1, ttlMs }))
    const lease = await locks.acquire('one', { ttl: '10s' })
    expect(lease.remainingMs).toBeLessThanOrEqual(10_000)
    await lease.renew('20s')
    expect(lease.remainingMs).toBeLessThanOrEqual(20_000)
    expect(lease.remainingMs).toBeGreaterThan(10_000)
  })

  test.each([
    ...bad.map((ahead) => ({ ahead, ttlMs: 5000, againMs: 50 })),
    { ahead: 0.5, ttlMs: 5000, againMs: 50 },
    ...[Number.NaN, Infinity, -1].map((ttlMs) => ({ ahead: 0, ttlMs, againMs: 50 })),
    ...[Number.NaN, Infinity, -1].map((againMs) => ({ ahead: 0, ttlMs: 5000, againMs })),
  ])('that has a claim wait with %j is none', async (numbersOfIt) => {
    const locks = await locksOf(answering({ state: 'waiting', ...numbersOfIt }))
    await expect(locks.acquire('one', { wait: '10s' })).rejects.toMatchObject({ code: 'INVALID' })
  })

  test('that lists no end for a lease does not prove it', async () => {
    const driver = memory()
    const lying: LockDriver = {
      ...narrow(driver),
      list: async (query) => {
        const page = await driver.list(query)
        const keys = page.keys.map(({ key, claims }) => ({
          key,
          claims: claims.map((listed) => ({ ...listed, expiresAt: Number.NaN })),
        }))
        return { ...page, keys }
      },
    }
    const locks = await locksOf(lying)
    const lease = await locks.acquire('one')
    await expect(locks.verify(lease.toJSON(), 'one')).rejects.toMatchObject({ code: 'LOST' })
  })
})

describe('a proof', () => {
  const proof: LeaseProof = { version: 1, key: 'default/named:one', id: 'id', fence: 7, ttlMs: 10_000 }

  test.each(['fence', 'ttlMs', 'limit', 'doubtMs', 'graceMs'] as const)('with a wrong %s is none', async (field) => {
    const locks = await locksOf(narrow(memory()))
    for (const value of [...never, -1, 0.5, '7', null]) {
      const changed = { ...proof, [field]: value } as unknown as LeaseProof
      await expect(locks.resume(changed), `${String(value)} to resume`).rejects.toMatchObject({ code: 'INVALID' })
      await expect(locks.verify(changed, 'one'), `${String(value)} to verify`).rejects.toMatchObject({
        code: 'INVALID',
      })
    }
    await expect(locks.resume(proof)).rejects.toMatchObject({ code: 'NOT_HELD' })
  })
})

describe('a reply of a server', () => {
  const described = {
    protocol: 1,
    name: 'memory',
    supports: { ...fullSupport, ttlDefaultMs: 30_000 },
    limits: { bodyBytesMax: 1000, requestsPerCallMax: 10 },
  }
  const withSupports = (change: object): unknown => ({ ...described, supports: { ...described.supports, ...change } })
  const polling = { attempts: null, minMs: 1000, maxMs: 16_000, factor: 2, jitter: 0.1 }

  test('says what the store takes', () => {
    const change = { ...store, ttlAndGraceMaxMs: 90_000, pollingDefault: polling }
    expect(storeIn(withSupports(change))?.supports).toMatchObject({
      ...store,
      ttlAndGraceMaxMs: 90_000,
      pollingDefault: { ...polling, attempts: Infinity },
    })
  })

  test.each([
    ...['ttlMinMs', 'ttlMaxMs', 'ttlDefaultMs', 'heartbeatDefaultMs', 'staleDefaultMs', 'durationMaxMs'].flatMap(
      (name) => [...never, -1, 0, '5', null].map((value) => ({ [name]: value })),
    ),
    { ttlMinMs: 2000, ttlMaxMs: 1000 },
    { pollingDefault: 7 },
    ...[{ minMs: 0 }, { minMs: 20_000 }, { maxMs: Infinity }, { factor: 0 }, { jitter: 2 }, { attempts: 0 }].map(
      (change) => ({ pollingDefault: { ...polling, ...change } }),
    ),
  ])('is refused with %j', (change) => {
    expect(storeIn(withSupports(change))).toBeUndefined()
  })

  test('is refused with numbers that are none', () => {
    for (const limits of [{ bodyBytesMax: Infinity }, { requestsPerCallMax: 0.5 }]) {
      expect(storeIn({ ...described, limits: { ...described.limits, ...limits } })).toBeUndefined()
    }
    expect(statusesIn({ statuses: [{ state: 'held', fence: 2 ** 53, ttlMs: 5 }] }, 1)).toBeUndefined()
    expect(statusesIn({ statuses: [{ state: 'held', fence: 1, ttlMs: Infinity }] }, 1)).toBeUndefined()
    expect(pageIn({ now: Infinity, keys: [] })).toBeUndefined()
  })
})

// ---- options of drivers

describe('an option that a timer counts', () => {
  const options: Readonly<Record<string, (value: number) => unknown>> = {
    'redis commandTimeoutMs': (value) => redis({ url: 'redis://127.0.0.1:1', commandTimeoutMs: value }),
    'postgres sendTimeoutMs': (value) => postgres('postgres://127.0.0.1:1/x', { sendTimeoutMs: value }),
    'postgres-advisory sendTimeoutMs': (value) =>
      postgresAdvisory('postgres://127.0.0.1:1/x', { sendTimeoutMs: value }),
    'postgres-advisory ttlMs': (value) => postgresAdvisory('postgres://127.0.0.1:1/x', { ttlMs: value }),
    'sqlite busyTimeoutMs': (value) => sqlite({ file: 'never-opened', busyTimeoutMs: value }),
    'mongodb timeout': (value) => mongodb('mongodb://127.0.0.1:1', { timeout: value }),
    'mongodb waitMin': (value) => mongodb('mongodb://127.0.0.1:1', { waitMin: value, waitMax: value }),
    'mysql timeout': (value) => mysql('mysql://127.0.0.1:1/x', { timeout: value }),
    'mysql waitMin': (value) => mysql('mysql://127.0.0.1:1/x', { waitMin: value, waitMax: value }),
    'etcd timeout': (value) => etcd('etcd://127.0.0.1:1', { timeout: value }),
    'nats timeout': (value) => nats('nats://127.0.0.1:1', { timeout: value }),
    's3 timeout': (value) => s3('s3://locks?region=a', { timeout: value }),
    's3 waitMin': (value) => s3('s3://locks?region=a', { waitMin: value, waitMax: value }),
    'dynamodb timeout': (value) => dynamodb('dynamodb://locks', { timeout: value }),
    'dynamodb waitMin': (value) => dynamodb('dynamodb://locks', { waitMin: value, waitMax: value }),
    'http answerWithinMs': (value) => http({ url: 'http://127.0.0.1:1', answerWithinMs: value }),
    'github poll': (value) => github('owner/repo', { poll: { min: value, max: value } }),
  }

  test.each(Object.entries(options))('%s is a whole number up to 2^31 - 1', (_, make) => {
    expect(() => make(2 ** 31 - 1)).not.toThrow()
    for (const value of [...never, -1, 0, 2 ** 31, 2 ** 53 - 1]) {
      expect(() => make(value), String(value)).toThrow(/^INVALID/)
    }
  })

  test('of GitHub leaves room for a ttl', () => {
    expect(() => github('owner/repo', { settle: '16m' })).toThrow('INVALID: settle')
    expect(() => github('owner/repo', { poll: { min: '5s', max: '1s' } })).toThrow('INVALID: poll.min')
  })

  test('and the default ttl of a store is a year at most', () => {
    expect(() => etcd('etcd://127.0.0.1:1', { ttl: '366d' })).toThrow('INVALID: ttl')
    expect(() => nats('nats://127.0.0.1:1', { ttl: '366d' })).toThrow('INVALID: ttl')
    expect(() => mongodb('mongodb://127.0.0.1:1', { ttl: 2 ** 53 - 1 })).toThrow('INVALID: ttl')
    expect(() => mysql('mysql://127.0.0.1:1/x', { ttl: '366d' })).toThrow('INVALID: ttl')
  })
})
