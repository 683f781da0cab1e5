import { describe, expect, test } from 'vitest'
import type { Claim, LockDriver, Request, ClaimStatus } from '../../src/core/contract/driver.ts'
import type { LivenessStamp } from '../../src/core/machine/liveness.ts'
import type { SqliteEnvironment } from '../../src/drivers/sqlite/driver.ts'
import { openDatabase } from '../../src/drivers/sqlite/database.ts'
import { claimOf } from '../support/claims.ts'
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
  const isGone = ({ pid }: LivenessStamp) => dead.has(pid)
  const driver = (pid = process.pid, elsewhere: Partial<SqliteEnvironment> = {}): Promise<LockDriver> =>
    open({ file: store, environment: { clock, isGone, process: { namespace: '1', pid, started: 1 }, ...elsewhere } })
  return { store, time, driver, dead }
}

type Stage = ReturnType<typeof setUp>
type Send = (driver: LockDriver, request: Request) => Promise<ClaimStatus | undefined>

/** One request by itself may go the short way; with another beside it, it never does. Nobody can tell which it went. */
async function isSameBothWays(play: (send: Send, stage: Stage) => Promise<unknown>): Promise<void> {
  const outcomes: unknown[] = []
  for (const beside of [[], [harmless]]) {
    const send: Send = async (driver, request) => (await driver.send([request, ...beside]))[0]
    outcomes.push(await play(send, setUp()))
  }
  expect(outcomes[0]).toEqual(outcomes[1])
}

/** What the store has in the end. */
const stored = async (driver: LockDriver): Promise<unknown> => (await driver.list({})).keys

const ask = (changes: Partial<Claim> = {}): Request => ({ op: 'claim', claim: { ...claim, ...changes } })

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
    await isSameBothWays(async (send, { driver }) => {
      const one = await driver()
      return [await send(one, ask(changes)), await stored(one)]
    })
  })

  test('to a release, one that came too late, and one of somebody else’s', async () => {
    await isSameBothWays(async (send, { driver, time }) => {
      const one = await driver()
      const story: unknown[] = []
      for (const id of ['a', 'b', 'c']) {
        story.push(await send(one, ask({ id })))
        if (id === 'b') time.now += 2000
        story.push(await send(one, release(id === 'c' ? 'not c' : id)))
      }
      return story
    })
  })

  test('to a claim on a key whose last holder is remembered', async () => {
    await isSameBothWays(async (send, { driver, dead }) => {
      const [one, other] = [await driver(1), await driver(2)]
      const story = [await send(one, ask())]
      dead.add(1)
      story.push(await send(other, release('nobody')), await send(other, ask({ id: 'b' })))
      expect(story.at(-1)).toMatchObject({ state: 'held', after: { how: 'died' } })
      return story
    })
  })

  test('to a claim after another boot has written: fences go on from the wall clock', async () => {
    await isSameBothWays(async (send, { driver, time }) => {
      const [here, there] = [await driver(1), await driver(2, { boot: 'another' })]
      const story = [await send(here, ask()), await send(there, ask({ key: 'default/named:y', id: 'b' }))]
      time.now += 10
      story.push(await send(here, ask({ key: 'default/named:z', id: 'c' })))
      return [story, await stored(here)]
    })
  })
})

describe('the short way hands over as the long one', () => {
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
    await isSameBothWays(async (send, { driver, time }) => {
      const [one, other] = [await driver(), await driver()]
      await send(one, ask())
      for (const [index, changes] of waiting.entries()) {
        await send(changes.replaces === undefined ? other : one, ask({ ...changes, id: `w${index}` }))
        time.now += 7
      }
      const status = await send(one, release('a'))
      time.now += 3
      return [status, await stored(one)]
    })
  })

  test('to nobody, if the holder’s time is over or it is not this driver’s', async () => {
    await isSameBothWays(async (send, { driver, time }) => {
      const [one, other] = [await driver(), await driver()]
      await send(one, ask())
      for (const id of ['b', 'c']) await send(other, ask({ id, ttlMs: 5000 }))
      time.now += 1500
      const story: unknown[] = []
      for (const id of ['a', 'b']) story.push(await send(one, release(id)), await stored(one))
      return story
    })
  })

  test('to one that waits on the clock of another boot', async () => {
    await isSameBothWays(async (send, { driver, time }) => {
      const [here, there] = [await driver(1), await driver(2, { boot: 'another' })]
      await send(here, ask())
      await send(there, ask({ id: 'b' }))
      // The counters are of this boot again.
      await send(here, ask({ key: 'default/named:y', id: 'c' }))
      time.now += 100
      return [await send(here, release('a')), await stored(here)]
    })
  })

  test('after another boot has written: fences go on from the wall clock', async () => {
    await isSameBothWays(async (send, { driver, time }) => {
      const [here, there] = [await driver(1), await driver(2, { boot: 'another' })]
      await send(here, ask())
      await send(here, ask({ id: 'b' }))
      await send(there, ask({ key: 'default/named:y', id: 'c' }))
      time.now += 10
      return [await send(here, release('a')), await stored(here)]
    })
  })

  test('to one whose lease a clock that was set back would stretch', async () => {
    await isSameBothWays(async (send, { driver, time }) => {
      const one = await driver()
      for (const id of ['a', 'b']) await send(one, ask({ id }))
      time.now -= 300
      return [await send(one, release('a')), await stored(one)]
    })
  })

  test.each([
    ['somebody waits', ['b']],
    ['nobody waits', []],
  ])('when another process releases the lock of one that has died, and %s', async (_who, waiting) => {
    await isSameBothWays(async (send, { driver, dead }) => {
      const [one, other] = [await driver(1), await driver(2)]
      for (const id of ['a', ...waiting]) await send(id === 'a' ? one : other, ask({ id }))
      dead.add(1)
      return [await send(other, release('a')), await send(other, ask({ id: 'b' })), await stored(other)]
    })
  })

  test('to nobody while another reader holds, and to the writer after it, which is told of a reader that expired', async () => {
    await isSameBothWays(async (send, { driver, time }) => {
      const one = await driver()
      const story: unknown[] = []
      for (const [id, ttlMs] of [
        ['a', 5000],
        ['b', 5000],
        ['c', 1000],
      ] as const) {
        await send(one, ask({ id, ttlMs, mode: 'shared' }))
      }
      await send(one, ask({ id: 'w', ttlMs: 5000 }))
      story.push(await send(one, release('a')), await stored(one))
      time.now += 1500
      story.push(await send(one, { op: 'renew', key: claim.key, id: 'b', ttlMs: 5000 }))
      story.push(await send(one, release('b')), await send(one, ask({ id: 'w' })))
      expect(story.at(-1)).toMatchObject({ state: 'held', after: { how: 'expired' } })
      return [story, await stored(one)]
    })
  })

  test('to nobody, if another reader has died: that is noted when it is first seen', async () => {
    await isSameBothWays(async (send, { driver, time, dead }) => {
      const [one, other] = [await driver(1), await driver(2)]
      for (const [by, id] of [
        [one, 'a'],
        [other, 'b'],
      ] as const)
        await send(by, ask({ id, mode: 'shared' }))
      dead.add(2)
      const status = await send(one, release('a'))
      time.now += 1200
      return [status, await send(one, ask({ id: 'c' }))]
    })
  })

  test.each<[string, (send: Send, one: LockDriver, other: LockDriver, stage: Stage) => Promise<unknown>]>([
    [
      'one that had been asked to leave',
      async (send, one, other) => {
        await send(one, ask({ graceMs: 500 }))
        await send(other, ask({ id: 'c', priority: 5, evict: 'lower-priority' }))
        return send(other, release('c'))
      },
    ],
    [
      'one that was told whom it succeeded',
      async (send, one, _other, { driver, dead, time }) => {
        await send(await driver(3), ask({ id: 'first', ttlMs: 100 }))
        dead.add(3)
        await send(one, ask())
        // What is remembered of an end is forgotten after one ttl; the successor goes on knowing.
        time.now += 200
        return send(one, { op: 'renew', key: claim.key, id: 'a', ttlMs: 1000 })
      },
    ],
  ])('after %s: that does not concern the next', async (_whom, begin) => {
    await isSameBothWays(async (send, stage) => {
      const [one, other] = [await stage.driver(1), await stage.driver(2)]
      const begun = await begin(send, one, other, stage)
      await send(other, ask({ id: 'b' }))
      const before = await stored(one)
      await send(one, release('a'))
      const next = await send(other, { op: 'renew', key: claim.key, id: 'b', ttlMs: 1000 })
      expect(next).toMatchObject({ state: 'held', leaving: undefined, after: undefined })
      return [begun, before, next, await stored(one)]
    })
  })

  test('to the one behind it if the first in line has died, as if that had never queued', async () => {
    await isSameBothWays(async (send, { driver, dead }) => {
      const [one, other, third] = [await driver(1), await driver(2), await driver(3)]
      await send(one, ask())
      await send(other, ask({ id: 'b' }))
      await send(third, ask({ id: 'c' }))
      dead.add(2)
      const status = await send(one, release('a'))
      const next = await send(third, { op: 'renew', key: claim.key, id: 'c', ttlMs: 1000 })
      expect(next).toMatchObject({ state: 'held', after: undefined })
      return [status, next, await stored(one)]
    })
  })
})

test('fences grow by one whichever way a grant went', async () => {
  const { driver } = setUp()
  const one = await driver()
  const fences: number[] = []
  for (let round = 0; round < 20; round += 1) {
    const id = `id-${round}`
    const others = round % 3 === 0 ? [harmless] : []
    const [status] = await one.send([{ op: 'claim', claim: { ...claim, id } }, ...others])
    if (status?.state === 'held') fences.push(status.fence)
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
    const counted = numbers('sequence from tally')
    expect(counted).toEqual(numbers(`turn as sequence from held where key = '${claim.key}'`))
  }
  look.close()
})

test('whoever waits goes first, even where no holder is left: somebody may have deleted it by hand', async () => {
  const { driver, store } = setUp()
  const [one, other] = [await driver(), await driver()]
  await one.send([{ op: 'claim', claim }])
  await one.send([{ op: 'claim', claim: { ...claim, id: 'b' } }])
  const hand = openDatabase(store)
  hand.exec(`delete from held where id = 'a'`)
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
