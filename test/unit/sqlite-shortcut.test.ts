import { describe, expect, test } from 'vitest'
import type { Claim, LockDriver, Request, Standing } from '../../src/core/driver.ts'
import type { Owner } from '../../src/core/owner.ts'
import { openDatabase } from '../../src/drivers/sqlite/database.ts'
import { claimOf } from '../sqlite/claims.ts'
import { scratch } from '../sqlite/scratch.ts'

const { file, driver: open } = scratch()
const claim = claimOf('default/named:x', { id: 'a', ttlMs: 1000 })
const release = (id: string): Request => ({ op: 'release', key: claim.key, id })
const harmless: Request = { op: 'release', key: 'default/named:nobody', id: 'none' }

let stores = 0

/** A store whose time is told, and its drivers. */
function setUp() {
  const store = file(`locks-${(stores += 1)}.sqlite`)
  const time = { now: 1000 }
  const clock = { now: () => time.now, wall: () => 1_700_000_000_000 + time.now }
  /** Pids of processes that have ended. */
  const dead = new Set<number>()
  const isGone = ({ pid }: Owner) => dead.has(pid)
  const driver = (pid = process.pid): Promise<LockDriver> =>
    open({ file: store, surroundings: { clock, isGone, process: { namespace: '1', pid, started: 1 } } })
  return { store, time, driver, dead }
}

/** One request by itself may go the short way; with another beside it, it never does. */
async function bothWays(
  play: (send: (request: Request) => Promise<Standing>, time: { now: number }) => Promise<unknown>,
) {
  const outcomes: unknown[] = []
  for (const beside of [[], [harmless]]) {
    const { time, driver } = setUp()
    const opened = await driver()
    const send = async (request: Request) => {
      const [standing = nothing] = await opened.send([request, ...beside])
      return standing
    }
    outcomes.push(await play(send, time))
  }
  return outcomes
}

const nothing: Standing = { state: 'unknown', error: 'no answer' }
const told = (standing: Standing) =>
  standing.state === 'held' ? { ...standing, fence: standing.fence % 1000 } : standing

describe('the short way answers as the long one', () => {
  test.each<[string, Partial<Claim>]>([
    ['a plain claim', {}],
    ['a claim that does not wait', { wait: false }],
    ['a claim with a longest hold', { maxHoldMs: 300 }],
    ['a detached claim', { detached: true }],
    ['a permit', { mode: 'shared', limit: 2 }],
    ['a range', { range: { start: 0, end: 5 } }],
    ['a conversion of nothing', { replaces: 'nobody' }],
    ['a claim that would evict', { evict: 'all' }],
  ])('to %s on an idle key', async (_what, changes) => {
    const [short, long] = await bothWays(async (send) =>
      told(await send({ op: 'claim', claim: { ...claim, ...changes } })),
    )
    expect(short).toEqual(long)
  })

  test('to a release, one that came too late, and one of somebody else’s', async () => {
    const [short, long] = await bothWays(async (send, time) => {
      const story: Standing[] = []
      for (const id of ['a', 'b', 'c']) {
        story.push(await send({ op: 'claim', claim: { ...claim, id } }))
        if (id === 'b') time.now += 2000
        story.push(await send(release(id === 'c' ? 'not c' : id)))
      }
      return story.map(told)
    })
    expect(short).toEqual(long)
  })
})

describe('the short way hands over as the long one', () => {
  /** What the store has of the key in the end, but for the size of fences. */
  const stored = async (driver: LockDriver): Promise<unknown> => {
    const { keys } = await driver.list({})
    return keys.map(({ key, claims }) => ({ key, claims: claims.map((one) => ({ ...one, fence: one.fence % 1000 })) }))
  }

  test.each<[string, ...Partial<Claim>[]]>([
    ['one that waits', {}],
    ['the first of three', {}, {}, {}],
    ['the most urgent', { priority: 1 }, { priority: 5 }],
    ['one that has a longest hold', { maxHoldMs: 300 }],
    ['several that share', { mode: 'shared' }, { mode: 'shared' }, {}],
    ['one permit of two', { mode: 'shared', limit: 1 }, { mode: 'shared', limit: 1 }],
    ['two ranges', { range: { start: 0, end: 5 } }, { range: { start: 5, end: 9 } }],
    ['its own conversion', { replaces: 'a', mode: 'shared' }, {}],
    ['one whose time is over, and the next', { ttlMs: 10 }, {}],
    ['one that is detached', { detached: true }, {}],
    ['one that would steal', { evict: 'stale', staleMs: 5000 }, {}],
  ])('to %s', async (_whom, ...waiting) => {
    const outcomes: unknown[] = []
    for (const beside of [[], [harmless]]) {
      const { time, driver } = setUp()
      const [one, other] = [await driver(), await driver()]
      await one.send([{ op: 'claim', claim }])
      for (const [index, changes] of waiting.entries()) {
        const by = changes.replaces === undefined ? other : one
        await by.send([{ op: 'claim', claim: { ...claim, ...changes, id: `w${index}` } }])
        time.now += 7
      }
      const [standing = nothing] = await one.send([release('a'), ...beside])
      time.now += 3
      outcomes.push([standing, await stored(one)])
    }
    expect(outcomes[0]).toEqual(outcomes[1])
  })

  test('to nobody, if the holder’s time is over or it is not this driver’s', async () => {
    const outcomes: unknown[] = []
    for (const beside of [[], [harmless]]) {
      const { time, driver } = setUp()
      const [one, other] = [await driver(), await driver()]
      const story: unknown[] = []
      await one.send([{ op: 'claim', claim }])
      await other.send([{ op: 'claim', claim: { ...claim, id: 'b', ttlMs: 5000 } }])
      await other.send([{ op: 'claim', claim: { ...claim, id: 'c', ttlMs: 5000 } }])
      time.now += 1500
      story.push(...(await one.send([release('a'), ...beside])).slice(0, 1), await stored(one))
      story.push(...(await one.send([release('b'), ...beside])).slice(0, 1), await stored(one))
      outcomes.push(story)
    }
    expect(outcomes[0]).toEqual(outcomes[1])
  })
})

test('fences grow by one whichever way a grant went', async () => {
  const { driver } = setUp()
  const one = await driver()
  const fences: number[] = []
  for (let round = 0; round < 20; round += 1) {
    const id = `id-${round}`
    const others = round % 3 === 0 ? [harmless] : []
    const [standing] = await one.send([{ op: 'claim', claim: { ...claim, id } }, ...others])
    if (standing?.state === 'held') fences.push(standing.fence)
    await one.send([release(id)])
  }
  const [first = 0] = fences
  expect(fences).toEqual(Array.from({ length: 20 }, (_, index) => first + index))
})

test('the counters are of the last grant, also if that was a hand-over', async () => {
  const { driver, store } = setUp()
  const one = await driver()
  for (const id of ['a', 'b', 'c']) await one.send([{ op: 'claim', claim: { ...claim, id } }])
  const look = openDatabase(store)
  const numbers = (what: string) => look.query(`select fence, ${what}`).get()
  for (const id of ['a', 'b']) {
    await one.send([release(id)])
    const counted = numbers('sequence from counters')
    expect(counted).toEqual(numbers(`turn as sequence from holders where key = '${claim.key}'`))
  }
  look.close()
})

test('whoever waits goes first, even where no holder is left: somebody may have deleted it by hand', async () => {
  const { driver, store } = setUp()
  const [one, other] = [await driver(), await driver()]
  await one.send([{ op: 'claim', claim }])
  await one.send([{ op: 'claim', claim: { ...claim, id: 'b' } }])
  const hand = openDatabase(store)
  hand.exec(`delete from holders where id = 'a'`)
  hand.close()
  expect(await other.send([{ op: 'claim', claim: { ...claim, id: 'c' } }])).toMatchObject([{ state: 'waiting' }])
  expect(await one.send([{ op: 'claim', claim: { ...claim, id: 'b' } }])).toMatchObject([{ state: 'held' }])
})

test('a release that somebody waits for lets the waiter in', async () => {
  const { driver } = setUp()
  const [one, other] = [await driver(), await driver()]
  await one.send([{ op: 'claim', claim }])
  expect(await other.send([{ op: 'claim', claim: { ...claim, id: 'b' } }])).toMatchObject([{ state: 'waiting' }])
  await one.send([release('a')])
  expect(await other.send([{ op: 'renew', key: claim.key, id: 'b', ttlMs: 1000 }])).toMatchObject([{ state: 'held' }])
})

describe('a release whose first in line has died', () => {
  test('goes to the one behind it, as if the dead one had never queued', async () => {
    const outcomes: unknown[] = []
    for (const beside of [[], [harmless]]) {
      const { driver, dead } = setUp()
      const [one, other, third] = [await driver(1), await driver(2), await driver(3)]
      const [first] = await one.send([{ op: 'claim', claim }])
      await other.send([{ op: 'claim', claim: { ...claim, id: 'b' } }])
      await third.send([{ op: 'claim', claim: { ...claim, id: 'c' } }])
      dead.add(2)
      const [standing] = await one.send([release('a'), ...beside])
      const [next = nothing] = await third.send([{ op: 'renew', key: claim.key, id: 'c', ttlMs: 1000 }])
      outcomes.push([standing, told(next)])
      expect([first, next]).toMatchObject([{ state: 'held' }, { state: 'held', after: undefined }])
    }
    expect(outcomes[0]).toEqual(outcomes[1])
  })
})
