import { describe, expect, test } from 'vitest'
import type { Claim, LockDriver, Request } from '../../src/core/contract/driver.ts'
import type { LivenessStamp } from '../../src/core/machine/liveness.ts'
import { openDatabase } from '../../src/drivers/sqlite/database.ts'
import { openConnection } from '../../src/drivers/sqlite/connection.ts'
import { selfIdentityIn } from '../../src/drivers/sqlite/self-identity.ts'
import { renewOwnHolder } from '../../src/drivers/sqlite/shortcut.ts'
import { systemSqliteEnvironment } from '../../src/drivers/sqlite/sqlite-environment.ts'
import { inTransaction } from '../../src/drivers/sqlite/transaction-writer.ts'
import { claimOf } from '../support/claims.ts'
import { scratch } from '../sqlite/scratch.ts'

const { file, driver: open } = scratch()
const key = 'default/named:x'
const wanted = claimOf(key, { id: 'a', ttlMs: 1000 })
type Renewal = Extract<Request, { op: 'renew' }>

let stores = 0

/** A store whose time is told. `renew` goes by one statement where that may be, or always by the rule. */
async function setUp(way: 'statement' | 'rule') {
  const store = file(`renewals-${(stores += 1)}.sqlite`)
  const time = { now: 1000 }
  const clock = { now: () => time.now, wall: () => 1_700_000_000_000 + time.now }
  const dead = new Set<number>()
  const isGone = ({ pid }: LivenessStamp) => dead.has(pid)
  const driver = (pid: number, boot?: string): Promise<LockDriver> =>
    open({
      file: store,
      environment: { clock, isGone, process: { namespace: '1', pid, started: 1 }, ...(boot !== undefined && { boot }) },
    })
  const renew = async (by: LockDriver, change: Partial<Renewal> = {}) => {
    // A floor of nothing changes nothing, but the statement does not know floors.
    const floor = way === 'rule' ? { fenceFloor: 0 } : {}
    return (await by.send([{ op: 'renew', key, id: 'a', ttlMs: 1000, ...floor, ...change }]))[0]
  }
  const [one, other] = [await driver(1), await driver(2)]
  const ask = async (changes: Partial<Claim> = {}, by = one) =>
    (await by.send([{ op: 'claim', claim: { ...wanted, ...changes } }]))[0]
  return { store, time, dead, driver, renew, ask, one, other }
}
type Stage = Awaited<ReturnType<typeof setUp>>

/** What `list` does not show: when a holder ends by the index, and what a renewal has changed of its terms. */
function columnsIn(store: string): unknown[] {
  const reader = openDatabase(store)
  const rows = reader.query('select id, ttl_ms, detached, died, ends_at, terms from held order by id').all()
  reader.close()
  return rows.map((row) => ({ ...row }))
}

/** Plays a scene in which every renewal may be one statement, and again by the rule: nobody can tell which it was. */
async function isSameBothWays(play: (stage: Stage) => Promise<unknown[]>): Promise<void> {
  const outcomes: unknown[] = []
  for (const way of ['statement', 'rule'] as const) {
    const stage = await setUp(way)
    const story = await play(stage)
    outcomes.push([story, (await stage.one.list({})).keys, columnsIn(stage.store)])
  }
  expect(outcomes[0]).toEqual(outcomes[1])
}

const kinds: [string, Partial<Claim>][] = [
  ['a plain holder', {}],
  ['a holder that did not wait', { wait: false }],
  ['a holder of high priority', { priority: 7 }],
  ['a detached holder', { detached: true }],
  ['a holder with a grace', { graceMs: 500 }],
  ['a reader', { mode: 'shared' }],
  ['a permit with a grace', { mode: 'shared', limit: 3, graceMs: 200 }],
  ['a range', { range: { start: 3, end: 9 } }],
]

describe('a renewal by one statement is as one by the rule', () => {
  test.each<[string, Partial<Claim>]>([...kinds, ['a holder with a longest hold', { maxHoldMs: 1300 }]])(
    'of %s, in time, often and too late',
    async (_kind, changes) => {
      await isSameBothWays(async ({ ask, renew, one, time, store }) => {
        const story: unknown[] = [await ask(changes)]
        for (const ms of [0, 400, 700, 999]) {
          time.now += ms
          story.push(await renew(one), (await one.list({})).keys, columnsIn(store))
        }
        time.now += 1000
        story.push(await renew(one))
        return story
      })
    },
  )

  test('with another ttl, for a claim that waits, is unknown, was asked to leave or was set back in time', async () => {
    await isSameBothWays(async ({ ask, renew, one, other, time }) => {
      const story: unknown[] = [await ask({ graceMs: 500 }), await renew(one, { ttlMs: 3000 })]
      story.push(await renew(one), await renew(one, { detached: true }), await renew(one))
      time.now -= 300
      story.push(await renew(one), await renew(one, { id: 'nobody' }))
      story.push(await ask({ id: 'b' }, other), await renew(other, { id: 'b' }))
      story.push(await ask({ id: 'c', priority: 5, evict: 'lower-priority' }, other))
      time.now += 100
      story.push(await renew(one), await renew(other, { id: 'c' }))
      return story
    })
  })

  test('for a claim of another driver, and of another boot', async () => {
    await isSameBothWays(async ({ ask, renew, one, other, time, driver }) => {
      const story: unknown[] = [await ask(), await renew(other), await renew(one)]
      const elsewhere = await driver(3, 'another')
      time.now += 10
      story.push(await renew(elsewhere), await renew(elsewhere), await renew(other))
      return story
    })
  })

  test('for a claim of a dead process, and for the successor of one', async () => {
    await isSameBothWays(async ({ ask, renew, one, other, time, dead }) => {
      const story: unknown[] = [await ask({ graceMs: 500 })]
      dead.add(1)
      story.push(await ask({ id: 'b', ttlMs: 5000 }, other), await renew(one), await renew(other))
      time.now += 2000
      for (let count = 0; count < 2; count += 1) story.push(await renew(other, { id: 'b', ttlMs: 5000 }))
      expect(story.at(-1)).toMatchObject({ state: 'held', after: { fence: expect.any(Number) as number } })
      return story
    })
  })

  test('that is one of a batch, between a claim and a release of its key', async () => {
    await isSameBothWays(async ({ ask, renew, one, time }) => {
      const story: unknown[] = [await ask({ mode: 'shared' })]
      time.now += 300
      const claimAndRenew: Request[] = [
        { op: 'claim', claim: { ...wanted, id: 'b', mode: 'shared' } },
        { op: 'renew', key, id: 'a', ttlMs: 1000 },
        { op: 'renew', key, id: 'b', ttlMs: 1000 },
        { op: 'release', key, id: 'b' },
        { op: 'renew', key, id: 'b', ttlMs: 1000 },
      ]
      const answers = await one.send(claimAndRenew)
      expect(answers.map(({ state }) => state)).toEqual(['held', 'held', 'held', 'absent', 'absent'])
      return [...story, answers, await renew(one)]
    })
  })
})

test.each(kinds)('renewing %s takes one statement', (_kind, changes) => {
  const environment = systemSqliteEnvironment()
  const self = selfIdentityIn(environment)
  const connection = openConnection(file(), environment, false)
  const { result } = inTransaction(connection, self, (writer) => {
    const granted = writer.carryOut({ op: 'claim', claim: { ...wanted, ...changes } })
    const renewed = renewOwnHolder(connection.statements, writer, { op: 'renew', key, id: 'a', ttlMs: 1000 })
    return [granted, renewed]
  })
  expect(result[1]).toEqual(result[0])
  connection.database.close()
})
