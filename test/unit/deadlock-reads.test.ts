/** What deadlock detection reads: its cost, counted in reads of the store. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { ListQuery, LockDriver } from '../../src/core/contract/driver.ts'
import type { LeaseholdError, Locks } from '../../src/index.ts'
import { around } from '../support/around.ts'
import { isSettled, locksBench, type LocksBench } from './support/bench-of-locks.ts'

/** A bench that notes what its clients list. A listing of the namespace takes as long as told. */
function countingBench(scanMs = 0): { readonly bench: LocksBench; readonly queries: ListQuery[] } {
  const bench = locksBench()
  const queries: ListQuery[] = []
  bench.wrap = (driver) =>
    around(driver, {
      list: async (query) => {
        queries.push(query)
        if (query.key === undefined && scanMs > 0) {
          await new Promise<void>((resolve) => void bench.environment.timer(scanMs, resolve))
        }
        return driver.list(query)
      },
    })
  return { bench, queries }
}

const clientsOf = (bench: LocksBench, count: number): Promise<readonly Locks[]> =>
  Promise.all(Array.from({ length: count }, () => bench.client()))

const forEver = (): Promise<void> => new Promise(() => {})

test('owners that hold nothing else read nothing, however long they wait for another owner', async () => {
  const { bench, queries } = countingBench()
  const [holder, ...waiters] = await clientsOf(bench, 21)
  void holder?.run('hot', forEver)
  await bench.advance(10)
  for (const locks of waiters) locks.run('hot', () => {}).catch(() => {})
  await bench.advance(60_000)
  expect(queries).toEqual([])
  await Promise.all(waiters.map((locks) => locks.close()))
})

test('an owner whose locks nobody waits for reads those locks, more and more rarely, and nothing else', async () => {
  const { bench, queries } = countingBench()
  const [holder, nested] = (await clientsOf(bench, 2)) as [Locks, Locks]
  void holder.run('hot', forEver)
  await bench.advance(10)
  nested.run('mine', () => nested.run('hot', () => {})).catch(() => {})
  await bench.advance(60_000)
  expect(new Set(queries.map(({ key }) => key))).toEqual(new Set(['default/named:mine']))
  expect(queries.length).toBeGreaterThan(20)
  expect(queries.length).toBeLessThan(35)
  await nested.close()
})

test('a chain of waiting owners is followed from its end, by the names of its locks', async () => {
  const { bench, queries } = countingBench()
  const chain = await clientsOf(bench, 4)
  void chain[0]?.run('lock-0', forEver)
  await bench.advance(10)
  for (const [index, locks] of chain.entries()) {
    if (index === 0) continue
    locks.run(`lock-${index}`, () => locks.run(`lock-${index - 1}`, () => {})).catch(() => {})
    await bench.advance(10)
  }
  await bench.advance(490)
  const named = queries.map(({ key }) => key?.split(':')[1])
  // The first waits for the end of the chain, and is waited for by all others; nobody waits for the last.
  expect(named).toEqual(['lock-1', 'lock-2', 'lock-3', 'lock-2', 'lock-3', 'lock-3'])
  await Promise.all(chain.slice(1).map((locks) => locks.close()))
})

test('a claim that may wait names what its owner holds, up to sixteen locks; others name nothing', async () => {
  const bench = locksBench()
  const drivers: LockDriver[] = []
  bench.wrap = (driver) => {
    drivers.push(driver)
    return driver
  }
  const [locks, holder] = (await clientsOf(bench, 2)) as [Locks, Locks]
  await holder.acquire('busy')
  const waits = [locks.acquire('busy', { owner: 'none' }), locks.acquire('busy')]
  await bench.advance(1)
  await locks.acquire('a', { owner: 'one' })
  await (await locks.acquire('b', { owner: 'one' })).handOff()
  waits.push(locks.acquire('busy', { owner: 'one' }))
  await bench.advance(1)
  for (let index = 0; index < 20; index += 1) await locks.acquire(`many-${index}`, { owner: 'many' })
  waits.push(locks.acquire('busy', { owner: 'many' }))
  await bench.advance(1)
  for (const wait of waits) wait.catch(() => {})
  const page = await drivers[0]?.list({ key: 'default/named:busy' })
  expect(page?.keys[0]?.claims.map(({ runner }) => runner.holds)).toEqual([
    undefined,
    undefined,
    undefined,
    ['named:a'],
    Array.from({ length: 16 }, (_, index) => `named:many-${index}`),
  ])
  await locks.close()
})

/** Owners that each hold twenty locks wait in a ring for the last lock of the next. */
async function largeRing(clients: readonly Locks[], bench: LocksBench): Promise<Promise<unknown>[]> {
  for (const [index, locks] of clients.entries()) {
    for (let lock = 0; lock < 20; lock += 1) await locks.acquire(`${index}-${lock}`, { owner: 'p' })
  }
  const waits: Promise<unknown>[] = []
  for (const [index, locks] of clients.entries()) {
    const wait = locks.acquire(`${(index + 1) % clients.length}-19`, { owner: 'p' })
    waits.push(wait.catch((error: LeaseholdError) => error.code))
    await bench.advance(10)
  }
  return waits
}

test('a cycle of owners that hold more than their claims name is found by listing the namespace', async () => {
  const { bench, queries } = countingBench()
  const clients = await clientsOf(bench, 3)
  const last = (await largeRing(clients, bench)).at(-1)
  await bench.advance(3000)
  expect(await isSettled(Promise.resolve(last))).toBe(true)
  expect(await last).toBe('DEADLOCK')
  expect(queries.some(({ prefix }) => prefix === 'default/')).toBe(true)
  await Promise.all(clients.map((locks) => locks.close()))
})

test.each([
  ['are the same in two reads', 0, true],
  ['were let go and taken again between any two reads', 1, false],
])('owners that wait in a cycle of locks that %s: one is told, if it is a deadlock', async (_, fencesPerMs, isTold) => {
  const bench = locksBench()
  bench.wrap = (driver) =>
    around(driver, {
      list: async (query) => {
        const page = await driver.list(query)
        // What is read at one time fits together.
        const later = Math.floor(bench.environment.now()) * fencesPerMs
        const keys = page.keys.map((each) => ({
          ...each,
          claims: each.claims.map((claim) => ({ ...claim, fence: claim.fence === 0 ? 0 : claim.fence + later })),
        }))
        return { ...page, keys }
      },
    })
  const clients = await clientsOf(bench, 2)
  for (const [index, locks] of clients.entries()) await locks.acquire(`lock-${index}`, { owner: 'p' })
  const waits = clients.map((locks, index) =>
    locks.acquire(`lock-${1 - index}`, { owner: 'p' }).catch((error: LeaseholdError) => error.code),
  )
  await bench.advance(10_000)
  const told = await Promise.all(waits.map((wait) => isSettled(wait)))
  expect(told).toEqual(isTold ? expect.arrayContaining([true]) : [false, false])
  await Promise.all(clients.map((locks) => locks.close()))
})

test('clients that must list the namespace share a fiftieth of the time between them', async () => {
  const scanMs = 400
  const { bench, queries } = countingBench(scanMs)
  const [holder, ...clients] = await clientsOf(bench, 11)
  void holder?.run('end', forEver)
  await bench.advance(10)
  // A chain: each client but the first waits for the one before it. All hold more locks than their claims name.
  for (const [index, locks] of clients.entries()) {
    for (let lock = 0; lock < 20; lock += 1) await locks.acquire(`${index}-${lock}`, { owner: 'p' })
    locks.acquire(index === 0 ? 'end' : `${index - 1}-19`, { owner: 'p' }).catch(() => {})
    await bench.advance(10)
  }
  await bench.advance(20_000)
  queries.length = 0
  const spanMs = 1_000_000
  await bench.advance(spanMs)
  const scans = queries.filter(({ key }) => key === undefined).length
  expect(scans).toBeGreaterThan(0)
  expect(scans * scanMs).toBeLessThan(spanMs / 40)
  await Promise.all(clients.map((locks) => locks.close()))
})

test('of a thousand waits of one client all are followed in turn, a bounded number at a time', async () => {
  const { bench, queries } = countingBench()
  const [crowd, other] = (await clientsOf(bench, 2)) as [Locks, Locks]
  await other.acquire('busy')
  await other.acquire('last', { owner: 'q' })
  for (let index = 0; index < 1000; index += 1) {
    await crowd.acquire(`mine-${index}`, { owner: `p${index}` })
    crowd.acquire(index === 999 ? 'last' : 'busy', { owner: `p${index}` }).catch(() => {})
  }
  await bench.advance(501)
  expect(queries.length).toBeGreaterThan(500)
  expect(queries.length).toBeLessThanOrEqual(1000)
  const crossing = other.acquire('mine-999', { owner: 'q' }).catch((error: LeaseholdError) => error.code)
  await bench.advance(5000)
  await nextTurn()
  expect(await isSettled(crossing)).toBe(true)
  expect(await crossing).toBe('DEADLOCK')
  expect(queries.every(({ key }) => key !== undefined)).toBe(true)
  await Promise.all([crowd.close(), other.close()])
})
