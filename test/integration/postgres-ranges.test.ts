/** Keys with many waiters on ranges: the walk looks for those that may move, and decides as the walk along the whole queue. */
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Claim, EvictRule, LockDriver, Request } from '../../src/core/contract/driver.ts'
import { admit } from '../../src/core/rule/admission.ts'
import { KeyState } from '../../src/core/rule/key-state.ts'
import { ModelComparison } from '../../src/testing/model/compare.ts'
import { seededRandom } from '../../src/testing/random.ts'
import { claim, claimOf, claiming, release, renew } from '../support/claims.ts'
import { postgresHarness } from '../support/postgres-harness.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { rounds } from '../support/extent.ts'

const server = await PostgresServer.start()
afterAll(() => server.destroy())

/** What the claims of a script want. */
interface Mix {
  /** How far ranges reach, and how long they are. */
  readonly places: number
  readonly lengths: readonly number[]
  /** How many claims want the whole key, and share. */
  readonly whole: number
  readonly shared: number
  readonly limited: number
  readonly converting: number
  /** Default: 1 to 3, so that most claims do not share by the same limit. */
  readonly limits?: readonly number[]
}

const mixes: Readonly<Record<string, Mix>> = {
  'disjoint ranges': { places: 12, lengths: [1], whole: 0.02, shared: 0.1, limited: 0.3, converting: 0.05 },
  'ranges that overlap': { places: 60, lengths: [1, 5, 30], whole: 0.03, shared: 0.3, limited: 0.3, converting: 0.1 },
  'one range': { places: 2, lengths: [4], whole: 0.05, shared: 0.3, limited: 0.3, converting: 0.1 },
  permits: { places: 2, lengths: [4], whole: 0.6, shared: 0.95, limited: 0.9, converting: 0.1, limits: [3] },
  'readers of the whole key': { places: 10, lengths: [1, 3], whole: 0.4, shared: 0.7, limited: 0.1, converting: 0.1 },
}

const key = 'file'
const claimCount = 50

/** Plays random requests on the driver and on the rule, and compares every answer and every stored claim. Returns the longest queue. */
async function compare(seed: number, steps: number, mix: Mix, few: number): Promise<number> {
  const random = seededRandom(seed)
  const below = (limit: number): number => Math.floor(random() * limit)
  const pick = <Value>(...values: readonly Value[]): Value => values.at(below(values.length)) as Value
  const chance = (share: number): boolean => random() < share
  const bench = await postgresHarness(server, { listen: false }, undefined, few).open()
  onTestFinished(() => bench.close())
  const driver = await bench.driver()
  const state = new KeyState()
  const comparison = new ModelComparison(0)
  const script: string[] = []
  const wishes = new Map<string, Claim>()
  /** The fences of the claims as listed. */
  let claims = new Map<string, number>()
  const wish = (id: string): Claim => {
    const start = below(mix.places) * pick(1, 1, 2)
    const mode = chance(mix.shared) ? 'shared' : 'exclusive'
    const evict = chance(0.03) ? pick<EvictRule>('all', 'stale', 'same-runner', 'lower-priority') : undefined
    return claimOf(key, {
      id,
      mode,
      ...(mode === 'shared' && chance(mix.limited) && { limit: pick(...(mix.limits ?? [1, 2, 3])) }),
      ...(!chance(mix.whole) && { range: { start, end: start + pick(...mix.lengths) } }),
      ...(chance(mix.converting) && { replaces: pick(`claim-${below(claimCount)}`, ...claims.keys()) }),
      priority: pick(0, 0, 0, 3, -2),
      wait: chance(0.9),
      ...(evict !== undefined && { evict }),
      ...(evict === 'stale' && { staleMs: 3000 }),
      ttlMs: pick(1000, 5000, 20_000, 60_000),
      graceMs: pick(0, 0, 0, 2000),
      ...(chance(0.05) && { maxHoldMs: 8000 }),
      runner: { ...claimOf(key).runner, id: `runner-${below(5)}` },
    })
  }
  let now = 0
  let longest = 0
  const next = (): { forRule: Request; forDriver: Request } => {
    const id = `claim-${below(claimCount)}`
    const fence = claims.get(id)
    const held = state.holders().find((record) => record.claim.id === id)
    if (chance(0.02) && fence !== undefined && held !== undefined) {
      const eviction = { op: 'evict', key, reason: 'a script' } as const
      return { forRule: { ...eviction, fence: held.fence }, forDriver: { ...eviction, fence } }
    }
    const ttlMs = pick(1000, 5000, 20_000, 60_000)
    if (chance(0.2)) wishes.delete(id)
    let wanted = wishes.get(id)
    if (wanted === undefined) wishes.set(id, (wanted = wish(id)))
    const request: Request = chance(0.6)
      ? { op: 'claim', claim: wanted }
      : pick<Request>(
          { op: 'renew', key, id, ttlMs },
          { op: 'renew', key, id, ttlMs },
          { op: 'release', key, id },
          { op: 'withdraw', key, id },
        )
    return { forRule: request, forDriver: request }
  }
  for (let step = 0; step < steps; step += 1) {
    if (chance(0.3)) {
      const ms = Math.max(-now, pick(100, 500, 1000, 4000, chance(0.3) ? -3000 : 100))
      now += ms
      await bench.advance(ms)
    }
    const requests = Array.from({ length: pick(1, 1, 4, 12) }, next)
    const answers = await driver.send(requests.map(({ forDriver }) => forDriver))
    for (const [index, { forRule }] of requests.entries()) {
      script.push(`${now} ${JSON.stringify(forRule)}`)
      const verdict = admit(state, forRule, now)
      state.apply(verdict)
      const difference = comparison.status(verdict.status, answers[index])
      if (difference !== undefined) throw new Error(`Seed ${seed}: ${difference}\n${script.join('\n')}`)
    }
    const page = await driver.list({ key })
    const listed = page.keys[0]?.claims ?? []
    claims = new Map(listed.map(({ id, fence }) => [id, fence]))
    const waiters = [...state.waiters()]
    longest = Math.max(longest, waiters.length)
    // Also claims whose time is over and that no request has noticed: they count as ahead.
    const stored = (
      left: (expiresAt: number) => number,
      records: readonly { id: string; expiresAt: number }[],
    ): string[] => records.map(({ id, expiresAt }) => `${id} ${left(expiresAt)}`)
    const shown = (wanted: string): string[] =>
      stored(
        (expiresAt) => expiresAt - page.now,
        listed.filter((each) => each.state === wanted),
      )
    const inRule = (records: readonly { claim: Claim; expiresAt: number }[]): string[] =>
      stored(
        (expiresAt) => expiresAt - now,
        records.map((record) => ({ id: record.claim.id, expiresAt: record.expiresAt })),
      )
    expect(shown('waiting'), script.join('\n')).toEqual(inRule(waiters))
    expect(shown('held').toSorted(), script.join('\n')).toEqual(inRule(state.holders()).toSorted())
  }
  return longest
}

describe.each(Object.entries(mixes))('with %s', (_name, mix) => {
  test.each([
    ['that look for waiters', 0],
    ['that look for waiters in long queues only', 3],
  ])('walks %s decide as the walk along the whole queue', { timeout: 180_000 }, async (_walks, few) => {
    let longest = 0
    for (let seed = 1; seed <= rounds(1, 4); seed += 1) longest = Math.max(longest, await compare(seed, 120, mix, few))
    expect(longest).toBeGreaterThan(9)
  })
})

/** A driver whose walks look for the waiters that may move, and how its time is moved. */
async function seekingDriver(): Promise<{ driver: LockDriver; advance: (ms: number) => Promise<void> }> {
  const bench = await postgresHarness(server, { listen: false }, undefined, 0).open()
  onTestFinished(() => bench.close())
  return { driver: await bench.driver(), advance: (ms) => bench.advance(ms) }
}

function on(start: number, end: number, wish: Partial<Claim> = {}): Claim {
  return claimOf(key, { range: { start, end }, ...wish })
}

async function statesAfter(driver: LockDriver, claims: readonly Claim[]): Promise<(string | undefined)[]> {
  return (await driver.send(claims.map((each) => claiming(each)))).map(({ state }) => state)
}

/** The claims of the key, in the order of their grants and then of the queue. */
async function listedBy(driver: LockDriver): Promise<string[]> {
  const claims = (await driver.list({ key })).keys[0]?.claims ?? []
  return claims.map(({ id, state }) => `${state} ${id}`)
}

const held = ({ id }: Claim): string => `held ${id}`
const waiting = ({ id }: Claim): string => `waiting ${id}`

describe.each([
  ['where something was touched', 0],
  // Then all waiters are read.
  ['after the clock was set back', -1],
])('conversions %s', (_where, ms) => {
  test('that a walk has passed are granted, once another conversion has left their range', async () => {
    const { driver, advance } = await seekingDriver()
    const [left, both, writer] = [on(0, 8, { mode: 'shared' }), on(0, 16, { mode: 'shared' }), on(32, 64)]
    const [upgrade, away, last] = [on(0, 8, { replaces: left.id }), on(32, 40, { replaces: both.id }), on(40, 48)]
    expect(await statesAfter(driver, [left, both, writer])).toEqual(['held', 'held', 'held'])
    expect(await statesAfter(driver, [upgrade, away, last])).toEqual(['waiting', 'waiting', 'waiting'])
    await advance(ms)
    await release(driver, writer)
    expect(await listedBy(driver)).toEqual([away, last, upgrade].map(held))
  })

  test('that a walk has passed are granted after a waiter for the same range', async () => {
    const { driver, advance } = await seekingDriver()
    const [holder, reader, writer] = [on(0, 8), on(20, 24, { mode: 'shared' }), on(40, 44)]
    const conversion = on(0, 8, { mode: 'shared', replaces: reader.id })
    const away = on(40, 44, { replaces: holder.id })
    const waiter = on(0, 8, { mode: 'shared' })
    expect(await statesAfter(driver, [holder, reader, writer])).toEqual(['held', 'held', 'held'])
    expect(await statesAfter(driver, [conversion, away, waiter])).toEqual(['waiting', 'waiting', 'waiting'])
    await advance(ms)
    await release(driver, writer)
    expect(await listedBy(driver)).toEqual([away, waiter, conversion].map(held))
  })

  test('of the last reader of the whole key make room for waiters on ranges', async () => {
    const { driver, advance } = await seekingDriver()
    const [reader, other] = [claimOf(key, { mode: 'shared' }), claimOf(key, { mode: 'shared' })]
    const waiters = [on(0, 4, { replaces: reader.id }), on(10, 14), on(20, 24)]
    expect(await statesAfter(driver, [reader, other])).toEqual(['held', 'held'])
    expect(await statesAfter(driver, waiters)).toEqual(['waiting', 'waiting', 'waiting'])
    await advance(ms)
    await release(driver, other)
    expect(await listedBy(driver)).toEqual(waiters.map(held))
  })

  test('end with the lease that they were to replace, and those behind them are granted', async () => {
    const { driver, advance } = await seekingDriver()
    const [reader, writer] = [on(0, 4, { mode: 'shared' }), on(10, 14)]
    const [conversion, behind] = [on(10, 20, { replaces: reader.id }), on(15, 18)]
    expect(await statesAfter(driver, [reader, writer])).toEqual(['held', 'held'])
    expect(await statesAfter(driver, [conversion, behind])).toEqual(['waiting', 'waiting'])
    await advance(ms)
    await release(driver, reader)
    expect(await listedBy(driver)).toEqual([writer, behind].map(held))
  })

  test('that ask for themselves after that end too', async () => {
    const { driver, advance } = await seekingDriver()
    const reader = on(0, 4, { mode: 'shared', ttlMs: 1000, graceMs: 5000 })
    const writer = on(10, 14)
    const [conversion, behind] = [on(10, 20, { replaces: reader.id }), on(15, 18)]
    expect(await statesAfter(driver, [reader, writer])).toEqual(['held', 'held'])
    expect(await statesAfter(driver, [conversion, behind])).toEqual(['waiting', 'waiting'])
    await advance(1000)
    expect(await renew(driver, conversion)).toEqual({ state: 'absent', reason: 'expired' })
    expect(await listedBy(driver)).toEqual([reader, writer, behind].map(held))
  })
})

test('if many holders end at once, a waiter for each is granted', async () => {
  const { driver, advance } = await seekingDriver()
  const each = (wish: Partial<Claim>): Claim[] => Array.from({ length: 40 }, (_, at) => on(at * 10, at * 10 + 5, wish))
  const [dead, living] = [each({ ttlMs: 1000 }), each({})]
  expect(new Set(await statesAfter(driver, dead))).toEqual(new Set(['held']))
  expect(new Set(await statesAfter(driver, living))).toEqual(new Set(['waiting']))
  await advance(1000)
  const other = on(1000, 1001)
  expect(await claim(driver, other)).toMatchObject({ state: 'held' })
  expect(await listedBy(driver)).toEqual([...living, other].map(held))
})

test('if a long range is released, a waiter for each of hundreds of parts is granted', async () => {
  const { driver } = await seekingDriver()
  const holder = on(0, 2000)
  await claim(driver, holder)
  const waiters = Array.from({ length: 200 }, (_, at) => on(at * 10, at * 10 + 5))
  expect(new Set(await statesAfter(driver, waiters))).toEqual(new Set(['waiting']))
  await release(driver, holder)
  expect(await listedBy(driver)).toEqual(waiters.map(held))
})

test('if thousands of waiters died, they leave at once, and those behind them are granted', async () => {
  const { driver, advance } = await seekingDriver()
  const holder = on(0, 2)
  await claim(driver, holder)
  const dead = Array.from({ length: 2000 }, (_, at) => on(at % 2, (at % 2) + 2, { ttlMs: 1000 }))
  for (let from = 0; from < dead.length; from += 500) await statesAfter(driver, dead.slice(from, from + 500))
  const living = on(1, 3)
  expect(await claim(driver, living)).toMatchObject({ state: 'waiting', ahead: 1000 })
  await advance(1000)
  const last = on(0, 2)
  expect(await claim(driver, last)).toMatchObject({ state: 'waiting', ahead: 1 })
  await release(driver, holder)
  expect(await listedBy(driver)).toEqual([held(living), waiting(last)])
}, 60_000)
