/** Very many locks, and locks with very many claims, as operators see them. */
import { expect, test } from 'vitest'
import type { ListQuery, Request } from '../../src/core/contract/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { pageOf, firstKeys } from '../../src/drivers/kit/paging.ts'
import { connect, createLocks } from '../../src/index.ts'
import { claimOf, claiming } from '../support/claims.ts'
import { cliBench } from './support/cli-bench.ts'

const lockCount = 130_000

function locksAt(store: string): Promise<unknown> {
  const requests = Array.from({ length: lockCount }, (_, index): Request => claiming(claimOf(`default/named:${index}`)))
  return memory({ name: store.replace('memory:', '') }).send(requests)
}

/** Waiters of one lock, behind a holder. */
function queueAt(store: string, waiters: number): Promise<unknown> {
  const requests = Array.from({ length: waiters + 1 }, (): Request => claiming(claimOf('default/named:hot')))
  return memory({ name: store.replace('memory:', '') }).send(requests)
}

test('ls prints 130,000 locks a part at a time, and waits for its reader in between', async () => {
  const { store, context, leasehold } = cliBench()
  await using _ = await connect(store)
  await locksAt(store)
  for (const args of [['ls'], ['ls', '--json']]) {
    let [lines, sinceDrained, mostSinceDrained] = [0, 0, 0]
    context.print = (text) => {
      lines += text.split('\n').length - 1
      sinceDrained += text.length
      mostSinceDrained = Math.max(mostSinceDrained, sinceDrained)
    }
    context.drained = async () => {
      sinceDrained = 0
    }
    expect(await leasehold(...args)).toBe(0)
    expect(lines).toBe(args.length === 1 ? lockCount + 1 : lockCount)
    expect(mostSinceDrained).toBeLessThan(1_000_000)
  }
}, 300_000)

test('a lock with 31,000 waiters is shown with the first, and the number of all', async () => {
  const { store, shown, leasehold } = cliBench()
  await using locks = await connect(store)
  await queueAt(store, 31_000)
  expect(await locks.status('hot')).toMatchObject({ locked: true, waiting: 31_000 })
  expect(await locks.inspect('hot')).toMatchObject({ held: 1, waiting: 31_000 })
  expect((await locks.inspect('hot'))?.waiters).toHaveLength(999)
  await leasehold('ls')
  expect(shown.output).toMatch(/ 31000\n$/)
  shown.output = ''
  await leasehold('explain', 'hot')
  expect(shown.output).toContain('\n  and at least 30001 more in line\n')
  shown.output = ''
  await leasehold('ls', '--json')
  expect(JSON.parse(shown.output)).toMatchObject({ name: 'hot', held: 1, waiting: 31_000 })
})

test('evict ends every holder, also those that are not listed', async () => {
  const driver = memory()
  const holders = Array.from({ length: 2500 }, () => claiming(claimOf('default/named:read', { mode: 'shared' })))
  await driver.send(holders)
  await using locks = await createLocks({ driver, allowForce: true })
  expect(await locks.evict('read', { reason: 'test' })).toBe(2500)
  expect(await locks.inspect('read')).toBeNull()
})

test('a holder that is not listed can be evicted by its fence', async () => {
  const driver = memory()
  const holders = Array.from({ length: 1200 }, () => claiming(claimOf('default/named:read', { mode: 'shared' })))
  const statuses = await driver.send(holders)
  const last = statuses.at(-1)
  const fence = last?.state === 'held' ? last.fence : 0
  await using locks = await createLocks({ driver, allowForce: true })
  expect(await locks.evict('read', { reason: 'test', fence })).toBe(1)
  expect(await locks.inspect('read')).toMatchObject({ held: 1199 })
})

test('a page of keys in any order is that of all keys in order', () => {
  const names = Array.from({ length: 5000 }, (_, index) => `k${(index * 7919) % 5000}`)
  const isListed = (key: string): boolean => !key.endsWith('3')
  const queries: ListQuery[] = [
    {},
    { limit: 10 },
    { prefix: 'k4' },
    { after: 'k2', limit: 7 },
    { prefix: 'k1', after: 'k15' },
  ]
  for (const query of queries) {
    const page = (keys: readonly string[]): unknown =>
      pageOf(keys, query, 0, (key) => ({ claims: isListed(key) ? [listedClaim] : [] }))
    expect(page(firstKeys(names, query, isListed))).toEqual(page(names.toSorted()))
    expect(page(firstKeys(names.toReversed(), query, isListed))).toEqual(page(names.toSorted()))
  }
})

const listedClaim = {
  id: 'id',
  state: 'held',
  mode: 'exclusive',
  priority: 0,
  fence: 1,
  ttlMs: 1,
  graceMs: 0,
  enteredAt: 0,
  acquiredAt: 0,
  lastHeartbeat: 0,
  renewalCount: 0,
  expiresAt: 1,
  runner: claimOf('a').runner,
} as const
