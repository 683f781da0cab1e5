import { assert, boolean, constant, integer, oneof, option, property, record } from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Claim, HeldStatus, LockDriver, Succession } from '../../src/core/contract/driver.ts'
import {
  decodeRow,
  holderValues,
  newHolderValues,
  newWaiterValues,
  waiterValues,
  type ClaimRow,
} from '../../src/drivers/sqlite/claim-row.ts'
import { openConnection } from '../../src/drivers/sqlite/connection.ts'
import { openDatabase } from '../../src/drivers/sqlite/database.ts'
import { systemSqliteEnvironment } from '../../src/drivers/sqlite/sqlite-environment.ts'
import { anyClaim } from '../sqlite/any-claim.ts'
import { scratch } from '../sqlite/scratch.ts'
import { ask, claim, claimOf, fenceOf, release } from '../support/claims.ts'

const { file, driver } = scratch()
const stamp = 'boot_1_2_3_0123456789abcdef'

function rowFor(wanted: Claim, state: ClaimRow['state'], succession?: Succession): ClaimRow {
  return {
    state,
    claim: wanted,
    order: 7,
    fence: state === 'held' ? 42 : 0,
    stamp,
    ttlMs: wanted.ttlMs,
    detached: wanted.detached ?? false,
    enteredAt: 1,
    acquiredAt: state === 'held' ? 2 : 0,
    lastHeartbeat: 3,
    renewalCount: 0,
    expiresAt: 4,
    died: false,
    leaving: undefined,
    succession,
  }
}

test('a claim comes out of the file as it was asked for, held or waiting, also after a renewal', () => {
  const connection = openConnection(file(), systemSqliteEnvironment(), false)
  const { database, statements } = connection
  const renewal = record({
    ttlMs: oneof(constant(undefined), integer({ min: 1, max: 100_000 })),
    detached: option(boolean(), { nil: undefined }),
  })
  const read = (state: ClaimRow['state'], { key, id }: Claim): ClaimRow => {
    const row = state === 'held' ? statements.holderOf.get(key) : statements.waiterOf.get(key, id)
    return decodeRow(row ?? {}, state)
  }
  assert(
    property(anyClaim, anyClaim, renewal, (wanted, before, { ttlMs, detached }) => {
      database.exec('begin')
      try {
        const cause = before.wait ? undefined : 'operator'
        const how = cause === undefined ? 'died' : 'evicted'
        const held = rowFor(wanted, 'held', { how, ...(cause && { cause }), fence: 41, runner: before.runner })
        const waiting = rowFor(wanted, 'waiting')
        statements.insertHolder.run(...newHolderValues(held, held.order))
        statements.insertWaiter.run(...newWaiterValues(waiting))
        for (const row of [held, waiting]) {
          expect(read(row.state, wanted)).toEqual(row)
          const renewed = { ...row, ttlMs: ttlMs ?? row.ttlMs, detached: detached ?? row.detached, renewalCount: 1 }
          if (row === held) statements.updateHolder.run(...holderValues(renewed))
          else statements.updateWaiter.run(...waiterValues(renewed))
          expect(read(row.state, wanted)).toEqual(renewed)
        }
      } finally {
        database.exec('rollback')
      }
    }),
    { numRuns: 500 },
  )
  database.close()
})

test('a plain claim is stored as little more than its runner', async () => {
  const own = await driver({ file: file() })
  const wanted = claimOf('a')
  await claim(own, wanted)
  const look = openDatabase(file())
  const row = look.query(`select runner, terms from held where key = 'a'`).get()
  look.close()
  expect(row).toEqual({ runner: `["runner","one","here",${process.pid},"client",0]`, terms: null })
})

test('a waiter that would steal goes by the ttl it asked for, whatever its renewals say', async () => {
  const time = { now: 1000 }
  const clock = { now: () => time.now, wall: () => 1_700_000_000_000 + time.now }
  const own = await driver({ file: file(), environment: { clock } })
  await claim(own, claimOf('a', { ttlMs: 60_000 }))
  const thief = claimOf('a', { ttlMs: 5_000, evict: 'stale' })
  await claim(own, thief)
  time.now += 2_000
  const renewal = { op: 'renew', key: thief.key, id: thief.id, ttlMs: 50_000 } as const
  expect(await ask(own, renewal)).toMatchObject({ state: 'waiting', againMs: 3_000 })
  time.now += 3_000
  expect(await ask(own, renewal)).toMatchObject({ state: 'held' })
})

test('a file that an earlier version made is opened, and its ends have no cause', async () => {
  const evicted = async (own: LockDriver): Promise<Claim> => {
    const held = claimOf('a')
    const fence = fenceOf(await claim(own, held))
    await ask(own, { op: 'evict', key: 'a', fence, reason: 'stuck' })
    return held
  }
  const earlier = await driver({ file: file() })
  await evicted(earlier)
  await earlier.close()
  const hand = openDatabase(file())
  hand.exec('alter table endings drop column cause')
  hand.close()
  const own = await driver({ file: file() })
  const next = claimOf('a')
  const { after } = (await claim(own, next)) as HeldStatus
  expect(after).toMatchObject({ how: 'evicted' })
  expect(after).not.toHaveProperty('cause')
  await release(own, next)
  await evicted(own)
  expect(await claim(own, claimOf('a'))).toMatchObject({ after: { how: 'evicted', cause: 'operator' } })
})

describe('a text that somebody has edited is told as damage', () => {
  const held = claimOf('a', { mode: 'shared', ttlMs: 1_000 })
  const damage = async (sql: string): Promise<LockDriver> => {
    const time = { now: 1000 }
    const clock = { now: () => time.now, wall: () => 1_700_000_000_000 + time.now }
    const own = await driver({ file: file(), environment: { clock } })
    await claim(own, held)
    // Of the second on `b` it is known whom it came after; on `c` an ending is remembered.
    for (const key of ['b', 'c']) await claim(own, claimOf(key, { ttlMs: 1_000 }))
    time.now += 1_000
    await claim(own, claimOf('b', { ttlMs: 5_000 }))
    await ask(own, { op: 'release', key: 'c', id: 'nobody' })
    const hand = openDatabase(file())
    hand.exec(sql)
    hand.close()
    return own
  }

  test.each([
    ['a', 'runner', `update held set runner = 'me' where key = 'a'`],
    ['a', 'runner', `update held set runner = '{"id":"me"}' where key = 'a'`],
    ['a', 'terms', `update held set terms = '{"mode"' where key = 'a'`],
    ['a', 'terms', `update held set terms = '["shared"]' where key = 'a'`],
    ['b', 'succession', `update held set succession = '["died",3]' where key = 'b'`],
    ['b', 'succession', `update held set succession = 'died' where key = 'b'`],
    ['c', 'runner', `update endings set runner = '' where key = 'c'`],
  ])('on %s, of the %s, after %s', async (key, column, sql) => {
    const own = await damage(sql)
    await expect(claim(own, claimOf(key))).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      reason: 'corrupt',
      message: expect.stringMatching(new RegExp(`The ${column} .* on "${key}" cannot be read`)) as string,
    })
    expect(await claim(own, claimOf('elsewhere'))).toMatchObject({ state: 'held' })
  })
})
