import { describe, expect, test } from 'vitest'
import type { ListedClaim, LockDriver } from '../../src/core/contract/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { readCycles, comparable } from '../../src/server/operators/cycles.ts'
import { ownPace, readSnapshot } from '../../src/server/operators/changes.ts'
import { fakeTime } from '../../src/testing/fake-time.ts'
import { around } from '../support/around.ts'
import { claim, claimOf } from '../support/claims.ts'
import { principalFor } from './support/principals.ts'

function bench() {
  const time = fakeTime()
  const driver = memory({ clock: time.clock })
  /** One claim of an owner, which holds or waits as the store decides. */
  const claims = (owner: string | undefined, name: string, wish: Partial<Parameters<typeof claimOf>[1]> = {}) => {
    const runner = { id: `runner-${owner}`, incarnation: 'one', host: 'here', pid: 1, client: `client-${owner}` }
    return claim(driver, claimOf(name, { runner: { ...runner, ...(owner !== undefined && { owner }) }, ...wish }))
  }
  const read = async (namespaces: readonly string[] | '*' = '*', store: LockDriver = driver) => {
    const reading = readCycles(store, time.environment, {
      principal: principalFor(namespaces),
      pace: { charge: () => {}, turn: () => Promise.resolve() },
      namespace: undefined,
    })
    await time.advance(1000)
    return reading
  }
  return { driver, claims, read, time }
}

describe('cycles', () => {
  test('are told with the ways that make them, and nothing else is marked', async () => {
    const { claims, read } = bench()
    await claims('a', 'default/named:one')
    await claims('b', 'default/named:two')
    await claims('a', 'default/named:two')
    await claims('b', 'default/named:one')
    await claims('c', 'default/named:one')
    const { owners, waits, cycles } = await read()
    const nameOf = (id: string) => owners.find((owner) => owner.id === id)?.owner
    expect(cycles.map((cycle) => cycle.map(({ owner, scope }) => [nameOf(owner), scope]))).toEqual([
      [
        ['b', 'one'],
        ['a', 'two'],
      ],
    ])
    expect(waits.map((wait) => [nameOf(wait.from), nameOf(wait.to), wait.because, wait.circular])).toEqual([
      ['b', 'a', 'holds', true],
      ['a', 'b', 'holds', true],
      ['c', 'a', 'holds', false],
      ['c', 'b', 'ahead', false],
    ])
  })

  test('that do not stand in two looks are none', async () => {
    const { driver, claims, read } = bench()
    await claims('a', 'default/named:one')
    await claims('b', 'default/named:two')
    await claims('a', 'default/named:two')
    await claims('b', 'default/named:one')
    let looks = 0
    const moving = around(driver, {
      async list(query) {
        looks += 1
        const page = await driver.list(query)
        // As if all had let go and come again.
        const again = (each: ListedClaim): ListedClaim => ({
          ...each,
          id: `${each.id}-${looks}`,
          fence: each.fence + looks,
        })
        return { ...page, keys: page.keys.map(({ key, claims: all }) => ({ key, claims: all.map(again) })) }
      },
    })
    const { cycles, waits } = await read('*', moving)
    expect({ looks, cycles }).toEqual({ looks: 2, cycles: [] })
    expect(waits.some(({ circular }) => circular)).toBe(false)
  })

  test('are looked for once only where nothing looks like one', async () => {
    const { driver, claims, read } = bench()
    await claims('a', 'default/named:one')
    await claims('b', 'default/named:one')
    let looks = 0
    const counting = around(driver, {
      list(query) {
        looks += 1
        return driver.list(query)
      },
    })
    expect((await read('*', counting)).waits).toHaveLength(1)
    expect(looks).toBe(1)
  })
})

test('many readers and many writers of one lock take no time from others, and hide no cycle of theirs', async () => {
  const { driver, claims, read } = bench()
  await claims('a', 'default/named:one')
  await claims('b', 'default/named:two')
  await claims('a', 'default/named:two')
  await claims('b', 'default/named:one')
  for (let number = 0; number < 600; number += 1) await claims(`reader-${number}`, 'crowd/named:x', { mode: 'shared' })
  for (let number = 0; number < 600; number += 1) await claims(`writer-${number}`, 'crowd/named:x')
  const { waits, cycles, truncated } = await read()
  expect({ waits: waits.length, cycles: cycles.length, truncated }).toEqual({
    waits: 1000,
    cycles: 1,
    truncated: true,
  })
  const { keys } = comparable({ ...(await readSnapshot(driver, ownPace)) })
  // 100,000 pairs, 600 a writer.
  expect(keys.find(({ key }) => key === 'crowd/named:x')?.claims).toHaveLength(600 + 166)
})

test('ten thousand who wait in line are all looked at', () => {
  const [holder, waiter] = [claimOf('a'), claimOf('a')].map(({ id, mode, runner }, place) => ({
    id,
    mode,
    runner,
    state: place === 0 ? ('held' as const) : ('waiting' as const),
  })) as [ListedClaim, ListedClaim]
  const snapshot = {
    now: 0,
    keys: [{ key: 'a', claims: [holder, ...Array<ListedClaim>(10_000).fill(waiter)] }],
    truncated: false,
  }
  expect(comparable(snapshot)).toBe(snapshot)
})

test('of permits, each owner is waited for once, however many it has', async () => {
  const { claims, read } = bench()
  const permit = { mode: 'shared', limit: 2 } as const
  await claims('a', 'default/named:slots', permit)
  await claims('a', 'default/named:slots', permit)
  await claims('b', 'default/named:slots', permit)
  expect((await read()).waits).toHaveLength(1)
})

test('claims without an owner are their client, and a made-up owner has no name', async () => {
  const { claims, read } = bench()
  await claims('0123456789abcdef0123456789abcdef', 'default/named:one')
  await claims(undefined, 'default/named:one')
  const { owners } = await read()
  expect(owners.map(({ owner, runner }) => [owner, runner.host])).toEqual([
    [undefined, 'here'],
    [undefined, 'here'],
  ])
})

test('namespaces that the principal does not cover are not told of, nor any id', async () => {
  const { driver, claims, read } = bench()
  await claims('a', 'secret/named:one')
  await claims('b', 'secret/named:one')
  await claims('a', 'default/named:two')
  await claims('b', 'default/named:two')
  const seen = await read(['default'])
  expect(seen.waits.map(({ scope }) => scope)).toEqual(['two'])
  const text = JSON.stringify(await read())
  for (const listed of (await driver.list({})).keys) for (const { id } of listed.claims) expect(text).not.toContain(id)
})
