import { describe, expect, test } from 'vitest'
import { memory } from '../../src/drivers/memory/driver.ts'
import {
  Audit,
  entriesInAllMax,
  auditEntryOf,
  evictAndAudit,
  readEviction,
  type EvictionContext,
} from '../../src/server/operators/evictions.ts'
import { ownPace } from '../../src/server/operators/changes.ts'
import { LockPages, lockQuery } from '../../src/server/operators/locks.ts'
import { fakeTime } from '../../src/testing/fake-time.ts'
import { claim, claimOf, release } from '../support/claims.ts'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import type { Caller } from '../../src/server/contract/call.ts'
import { principalFor } from './support/principals.ts'

function bench() {
  const time = fakeTime()
  const driver = memory({ clock: time.clock })
  const pages = new LockPages(time.environment)
  const read = (query: Record<string, string>, namespaces: readonly string[] | '*' = '*') => {
    const principal = principalFor(namespaces)
    return pages.read(driver, lockQuery(new URLSearchParams(query), principal), { ...ownPace, principal })
  }
  /** The names on all pages, page by page. */
  const readAll = async (query: Record<string, string>, namespaces: readonly string[] | '*' = '*') => {
    const found: string[][] = []
    let after: string | undefined
    do {
      const page = await read({ ...query, ...(after !== undefined && { after }) }, namespaces)
      found.push(page.locks.map(({ scope }) => scope))
      after = page.next
    } while (after !== undefined)
    return found
  }
  return { time, driver, read, readAll }
}

describe('a page of locks', () => {
  test('has holders and waiters with their ages by the store, and no ids', async () => {
    const { time, driver, read } = bench()
    const holder = claimOf('default/named:a')
    const waiter = claimOf('default/named:a', { priority: 3 })
    await claim(driver, holder)
    await time.advance(4000)
    await claim(driver, waiter)
    await time.advance(1500)
    const page = await read({})
    expect(page.locks).toMatchObject([
      {
        namespace: 'default',
        scope: 'a',
        key: 'default/named:a',
        holders: [{ sinceMs: 5500, lastHeartbeatMs: 5500, remainingMs: 54_500, fence: expect.any(Number) }],
        waiters: [{ sinceMs: 1500, priority: 3, fence: 0 }],
      },
    ])
    expect(page.locks[0]?.holders[0]?.acquiredAt).toBe(new Date(time.environment.wall() - 5500).toISOString())
    const text = JSON.stringify(page)
    expect([text.includes(holder.id), text.includes(waiter.id)]).toEqual([false, false])
  })

  test('has the first claims of a lock and the number of all, however many there are', async () => {
    const { driver, read } = bench()
    for (let waiter = 0; waiter < 31_000; waiter += 1) await claim(driver, claimOf('default/named:a'))
    const page = await read({})
    expect(page.locks).toMatchObject([{ held: 1, waiting: 30_999 }])
    const [lock] = page.locks
    expect([lock?.holders.length, lock?.waiters.length]).toEqual([1, 59])
    expect((await read({ state: 'waited-for' })).locks).toHaveLength(1)
  })

  test('has a bounded number of claims, and all pages together have each lock once', async () => {
    const { driver, read, readAll } = bench()
    for (let lock = 100; lock < 400; lock += 1) {
      for (let waiter = 0; waiter < 60; waiter += 1) await claim(driver, claimOf(`default/named:${lock}`))
    }
    const first = await read({ limit: '1000' })
    const claims = first.locks.reduce((sum, { holders, waiters }) => sum + holders.length + waiters.length, 0)
    expect(claims).toBeGreaterThanOrEqual(5000)
    expect(claims).toBeLessThan(5100)
    for (const filter of [{}, { name: '' }, { state: 'held' }]) {
      const pages = await readAll({ limit: '1000', ...filter })
      expect(pages.flat()).toEqual(Array.from({ length: 300 }, (_, at) => String(at + 100)))
    }
  })

  test('is as long as asked for, with filters too, and all pages together have each lock once', async () => {
    const { driver, readAll } = bench()
    for (let count = 10; count < 35; count += 1) await claim(driver, claimOf(`default/named:job-${count}`))
    for (let count = 10; count < 35; count += 1) await claim(driver, claimOf(`secret/named:job-${count}`))
    const pages = await readAll({ limit: '10' }, ['default'])
    expect(pages.flat()).toEqual(Array.from({ length: 25 }, (_, at) => `job-${at + 10}`))
    expect(Math.max(...pages.map((page) => page.length))).toBe(10)
    const filtered = await readAll({ limit: '2', name: 'JOB-2' }, ['default'])
    expect(filtered.map((page) => page.length)).toEqual([2, 2, 2, 2, 2])
    expect(filtered.flat()).toEqual(Array.from({ length: 10 }, (_, at) => `job-2${at}`))
  })

  test('goes on where it was when the last lock of the page before is gone', async () => {
    const { driver, read } = bench()
    const claims = ['a1', 'a2', 'a3'].map((name) => claimOf(`default/named:${name}`))
    for (const each of claims) await claim(driver, each)
    const first = await read({ limit: '2', name: 'a' })
    for (const last of claims.slice(1, 2)) await release(driver, last)
    const second = await read({ limit: '2', name: 'a', after: first.next ?? '' })
    expect(second.locks.map(({ scope }) => scope)).toContain('a3')
  })

  test('can be of one namespace, prefix or state', async () => {
    const { time, driver, readAll } = bench()
    await claim(driver, claimOf('default/named:held'))
    await claim(driver, claimOf('default/named:wanted'))
    await claim(driver, claimOf('default/named:wanted'))
    await claim(driver, claimOf('other/named:over', { ttlMs: 1000, graceMs: 60_000 }))
    await time.advance(2000)
    expect(await readAll({ namespace: 'other' })).toEqual([['over']])
    expect(await readAll({ prefix: 'h' })).toEqual([['held']])
    expect(await readAll({ namespace: 'default', prefix: 'w' })).toEqual([['wanted']])
    expect(await readAll({ state: 'expired' })).toEqual([['over']])
    expect(await readAll({ state: 'waited-for' })).toEqual([['wanted']])
    expect(await readAll({ state: 'held' })).toEqual([['held', 'wanted']])
    expect(await readAll({ state: 'leaving' })).toEqual([[]])
  })

  test('gives a place to go on from that says nothing of what the token may not see', async () => {
    const { driver, read } = bench()
    await claim(driver, claimOf('default/named:a'))
    for (let count = 0; count < 30; count += 1) await claim(driver, claimOf(`secret/named:merger-${count}`))
    const { next = '' } = await read({ limit: '1' }, ['default'])
    expect(next).not.toBe('')
    expect(Buffer.from(next, 'base64url').toString('latin1')).not.toContain('merger')
    await expect(read({ after: 'AAAA' })).rejects.toThrow(/no place that this server has given/)
    const forged = `${next.slice(0, -2)}${next.endsWith('AA') ? 'BB' : 'AA'}`
    await expect(read({ after: forged })).rejects.toThrow(/INVALID/)
  })

  test.each([
    [{ colour: 'red' }, /no parameter "colour"/],
    [{ state: 'odd' }, /state must be one of held, waited-for/],
    [{ limit: '0' }, /limit must be a whole number from 1 to 1000/],
    [{ limit: 'many' }, /limit/],
    [{ name: 'x'.repeat(600) }, /name must be at most 512 bytes/],
    [{ namespace: '../etc' }, /namespace/],
    [{ namespace: 'secret' }, /not for the namespace "secret"/],
  ])('is refused for %j', async (query, why) => {
    const { read } = bench()
    await expect(async () => read(query as Record<string, string>, ['default'])).rejects.toThrow(why)
  })
})

describe('an eviction', () => {
  const caller: Caller = { principal: principalFor('*'), address: '127.0.0.1' }

  /** A driver as the operators' routes see it, where everything is allowed. */
  function accessTo(driver: Pick<LockDriver, 'supports' | 'list' | 'send'>): EvictionContext['store'] {
    return {
      supports: driver.supports,
      listFor: (_, query) => driver.list(query),
      sendFor: (_, requests) => driver.send(requests),
    }
  }

  const eviction = { key: 'default/named:a', fence: 1, reason: 'stuck' }

  test.each([
    [null, /must be an object/],
    [[], /must be an object/],
    [{ ...eviction, force: true }, /"force"/],
    [{ ...eviction, key: 'a' }, /namespace/],
    [{ ...eviction, key: 7 }, /eviction.key/],
    [{ ...eviction, fence: 0 }, /eviction.fence/],
    [{ ...eviction, fence: '1' }, /eviction.fence/],
    [{ ...eviction, reason: '  ' }, /eviction.reason/],
    [{ ...eviction, reason: 'two\nlines' }, /eviction.reason/],
    [{ ...eviction, reason: 'x'.repeat(2000) }, /eviction.reason/],
  ])('of %j is refused', (body, why) => {
    expect(() => readEviction(body)).toThrow(why)
  })

  test('is remembered with who, whom and why, also if there was nobody; a thousand of them', async () => {
    const { time, driver } = bench()
    const logged: string[] = []
    const logger = { debug: () => {}, info: () => {}, warn: (message: string) => void logged.push(message) }
    const audit = new Audit(logger)
    const principal = principalFor('*')
    const evict = (fence: number) =>
      evictAndAudit({ store: accessTo(driver), environment: time.environment, audit }, caller, { ...eviction, fence })
    const status = await claim(driver, claimOf(eviction.key))
    const fence = status.state === 'held' ? status.fence : 0
    expect(await evict(fence + 1)).toMatchObject({ result: 'not-held', runner: undefined })
    expect(await evict(fence)).toMatchObject({ result: 'evicted', by: 'tester', scope: 'a', runner: { host: 'here' } })
    expect((await driver.list({ key: eviction.key })).keys).toEqual([])
    expect(logged[1]).toBe(`tester evicts fence ${fence} of "default/named:a" (evicted): stuck`)
    expect(audit.seenBy(principal).map(({ result }) => result)).toEqual(['evicted', 'not-held'])
    expect(audit.seenBy(principalFor(['other']))).toEqual([])
    for (let count = 0; count < 1100; count += 1) await evict(fence + 5)
    expect(audit.seenBy(principal)).toHaveLength(1000)
  })

  test('is not forgotten because of what others do: a thousand of each token are kept', () => {
    const { time } = bench()
    const audit = new Audit(undefined)
    const record = (name: string, fence: number) =>
      audit.record(auditEntryOf(time, { ...principalFor('*'), name }, { ...eviction, fence }, { result: 'not-held' }))
    record('ops', 1)
    for (let fence = 1; fence <= 1100; fence += 1) record('flood', fence)
    record('ops', 2)
    const kept = audit.seenBy(principalFor('*'))
    expect(kept.filter(({ by }) => by === 'ops').map(({ fence }) => fence)).toEqual([2, 1])
    expect(kept.filter(({ by }) => by === 'flood')).toHaveLength(1000)
    expect(kept.at(-2)).toMatchObject({ by: 'flood', fence: 101 })
  })

  test('is kept within a bound however many tokens there are, and the token with the most forgets first', () => {
    const { time } = bench()
    const audit = new Audit(undefined)
    const record = (name: string, fence: number) =>
      audit.record(auditEntryOf(time, { ...principalFor('*'), name }, { ...eviction, fence }, { result: 'evicted' }))
    for (let fence = 1; fence <= 1000; fence += 1) record('ops', fence)
    // As of a job that has a token of its own for each run.
    for (let run = 1; run <= entriesInAllMax - 2; run += 1) record(`jwt:run-${run}`, 10_000 + run)
    const kept = audit.seenBy(principalFor('*'))
    expect(kept).toHaveLength(entriesInAllMax)
    expect(kept.filter(({ by }) => by === 'ops').map(({ fence }) => fence)).toEqual([1000, 999])
    expect(audit.find(eviction.key, 1000)).toMatchObject({ by: 'ops' })
    expect(audit.find(eviction.key, 998)).toBeUndefined()
  })

  test('that a client asked for is one line of the log, whatever its reason', () => {
    const logged: string[] = []
    const logger = { debug: () => {}, info: () => {}, warn: (message: string) => void logged.push(message) }
    const { time } = bench()
    const asked = { ...eviction, fence: 7, reason: 'done\nops evicts fence 8\u009b31m\u202e' }
    new Audit(logger).record(auditEntryOf(time, principalFor('*'), asked, { result: 'not-held' }))
    expect(logged).toEqual([
      String.raw`tester evicts fence 7 of "default/named:a" (not-held): done\nops evicts fence 8\u009b31m\u202e`,
    ])
  })

  test('is refused, and not remembered, where the store cannot do it', async () => {
    const { time, driver } = bench()
    const limited = Object.assign(driver, { supports: { ...driver.supports, evict: [] } })
    const audit = new Audit(undefined)
    const evicting = evictAndAudit({ store: accessTo(limited), environment: time.environment, audit }, caller, eviction)
    await expect(evicting).rejects.toMatchObject({ code: 'UNSUPPORTED' })
    expect(audit.seenBy(principalFor('*'))).toEqual([])
  })

  test('whose answer does not come is remembered as unknown', async () => {
    const { time, driver } = bench()
    await claim(driver, claimOf(eviction.key))
    const fence = (await driver.list({ key: eviction.key })).keys[0]?.claims[0]?.fence ?? 0
    const { supports } = driver
    const send = async () => [{ state: 'unknown', error: 'cut' }] as const
    const cut = { supports, list: driver.list.bind(driver), send }
    const audit = new Audit(undefined)
    const done = await evictAndAudit({ store: accessTo(cut), environment: time.environment, audit }, caller, {
      ...eviction,
      fence,
    })
    expect(done.result).toBe('unknown')
  })
})
