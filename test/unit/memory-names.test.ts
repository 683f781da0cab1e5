import { setImmediate as nextTurn } from 'node:timers/promises'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { claim, claimOf, release } from '../support/claims.ts'

/** More names than a list reads one by one. */
const many = 1100
const hourMs = 3_600_000

/** The claim of a name, always the same. */
function named(key: string, ttlMs = 1000) {
  return claimOf(key, { id: `claim of ${key}`, ttlMs })
}

async function storeWithMany(now: () => number): Promise<LockDriver> {
  const driver = memory({ clock: { now, wall: now } })
  await driver.open()
  for (let number = 0; number < many; number += 1) {
    await claim(driver, claimOf(`fixed ${number}`, { ttlMs: hourMs }))
  }
  return driver
}

/** The names of all keys, page by page. */
async function listed(driver: LockDriver, prefix: string): Promise<readonly string[]> {
  const names: string[] = []
  let after: string | undefined
  do {
    const page = await driver.list({ prefix, limit: 100, ...(after !== undefined && { after }) })
    names.push(...page.keys.map(({ key }) => key))
    after = page.next
  } while (after !== undefined)
  return names
}

test('a store with many names lists them in order, whatever has come and gone between two lists', async () => {
  const step = fc.record({ op: fc.constantFrom('claim', 'claim', 'release', 'list'), name: fc.nat(40) })
  const comparison = fc.asyncProperty(fc.array(step, { maxLength: 60, size: 'max' }), async (steps) => {
    const driver = await storeWithMany(() => 0)
    const held = new Set<string>()
    for (const { op, name } of steps) {
      const key = `some ${name}`
      if (op === 'list') expect(await listed(driver, 'some ')).toEqual([...held].toSorted())
      else if (op === 'claim') {
        await claim(driver, named(key))
        held.add(key)
      } else {
        await release(driver, named(key))
        held.delete(key)
      }
    }
    expect(await listed(driver, '')).toHaveLength(many + held.size)
    await driver.close()
  })
  await fc.assert(comparison, { numRuns: 30 })
})

test('a name whose holder expired is listed again once it is held again', async () => {
  let now = 0
  const driver = await storeWithMany(() => now)
  await claim(driver, named('again'))
  now += 1000
  // Ends the claim, and remembers how it ended.
  await release(driver, claimOf('again'))
  expect(await listed(driver, 'again')).toEqual([])
  await claim(driver, claimOf('again'))
  expect(await listed(driver, 'again')).toEqual(['again'])
  await driver.close()
})

test('names that come in their thousands after a list are listed too', async () => {
  const driver = await storeWithMany(() => 0)
  expect(await listed(driver, '')).toHaveLength(many)
  for (let number = 0; number < 3000; number += 1) await claim(driver, claimOf(`new ${number}`))
  const names = await listed(driver, '')
  expect(names).toHaveLength(many + 3000)
  expect(names).toEqual(names.toSorted())
  await driver.close()
})

test('names that come and go while they are sorted are listed once, and the event loop turns meanwhile', async () => {
  const driver = memory()
  await driver.open()
  const number = 20_000
  for (let at = 0; at < number; at += 1) await claim(driver, named(`some ${at}`, hourMs))
  let turns = 0
  const listing = { isDone: false }
  const counting = (async () => {
    while (!listing.isDone) {
      await nextTurn()
      // Gone and there again, those that are sorted already and those that are not; but never the first five.
      const again = named(`some ${2000 + ((turns * 7919) % (number - 2000))}`, hourMs)
      await release(driver, again)
      await claim(driver, again)
      await claim(driver, named(`some more ${turns}`, hourMs))
      turns += 1
    }
  })()
  const page = await driver.list({ prefix: 'some ', limit: 5 })
  listing.isDone = true
  await counting
  expect(turns).toBeGreaterThan(2)
  expect(page.keys.map(({ key }) => key)).toEqual(['some 0', 'some 1', 'some 10', 'some 100', 'some 1000'])
  const names = await listed(driver, 'some ')
  expect(names).toHaveLength(number + turns)
  expect(new Set(names).size).toBe(names.length)
  await driver.close()
})

test('a list passes over very many names that are gone without keeping the event loop', async () => {
  const driver = memory()
  await driver.open()
  const number = 20_000
  for (let at = 0; at < number; at += 1) await claim(driver, named(`some ${at}`, hourMs))
  await claim(driver, named('the last'))
  expect((await driver.list({ prefix: '', limit: 1 })).keys).toHaveLength(1)
  for (let at = 0; at < number - many; at += 1) await release(driver, named(`some ${at}`, hourMs))
  let turns = 0
  const listing = { isDone: false }
  const counting = (async () => {
    for (; !listing.isDone; turns += 1) await nextTurn()
  })()
  const page = await driver.list({ prefix: 'the', limit: 1 })
  expect(page.keys.map(({ key }) => key)).toEqual(['the last'])
  const first = await driver.list({ prefix: '', limit: 1 })
  listing.isDone = true
  await counting
  expect(first.keys).toHaveLength(1)
  expect(turns).toBeGreaterThan(2)
  await driver.close()
})
