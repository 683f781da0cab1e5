import { describe, expect, onTestFinished, test } from 'vitest'
import type { Claim, ClaimStatus, LockDriver, Notification } from '../../src/core/contract/driver.ts'
import { sleepProofClock, systemEnvironment } from '../../src/core/time/environment.ts'
import { createLocks, LeaseholdError } from '../../src/index.ts'
import { documentDriver, type ClocklessStore, type NotifiedOwner } from '../../src/drivers/document/driver.ts'
import { Observations } from '../../src/drivers/document/observed/observations.ts'
import { ObservedDriver } from '../../src/drivers/document/observed/observed-driver.ts'
import { conformance, fakeTime, modelTest, type FakeTime, type Harness } from '../../src/testing/index.ts'
import { deferred } from '../support/deferred.ts'
import { isLong, rounds } from '../support/extent.ts'
import { ClocklessShelf } from './support/clockless-shelf.ts'

const quick = { minMs: 2, maxMs: 5, keysPerSecondMax: 10_000 }

/**
 * One clock for all drivers, each of which has seen every write at once: the rule and the codec are what is left to judge, and that a
 * granted conversion begins its lease anew.
 */
const harness: Harness = {
  conversionsBeginAnew: true,
  async open() {
    const time = fakeTime()
    const real = systemEnvironment()
    // Pauses after lost races pass by themselves.
    const environment = { ...time.environment, timer: real.timer.bind(real) }
    let shelf = new ClocklessShelf()
    let observations = new Observations()
    const drivers: LockDriver[] = []
    return {
      async driver() {
        const driver = new ObservedDriver(shelf.store(quick), environment, { observations, watching: real })
        await driver.open()
        drivers.push(driver)
        return driver
      },
      advance: (ms) => time.advance(ms),
      async empty() {
        shelf = new ClocklessShelf()
        observations = new Observations()
      },
      async close() {
        await Promise.all(drivers.map((driver) => driver.close()))
      },
    }
  },
}

conformance('a document store without a clock', harness)

for (const seed of isLong ? [1, 2, 3, 4, 5] : [2]) {
  const name = `a document store without a clock, begun with chance ${seed},`
  modelTest(name, harness, { runs: rounds(150, 2000), timeLimitMs: rounds(20_000, 60_000), seed })
}

describe('an observer of a store without a clock', () => {
  test('ends a lease a whole ttl and the margin after it first saw it, and not a millisecond before', async () => {
    const { time, holder, observer } = setting()
    await claim(holder, 'a')
    await time.advance(700)
    // Only now does the observer see the claim: what was before does not count.
    expect(await claim(observer, 'b', { wait: false })).toMatchObject({ reason: 'refused' })
    await time.advance(1050)
    expect(await claim(observer, 'c', { wait: false })).toMatchObject({ reason: 'refused' })
    await time.advance(1)
    expect(await claim(observer, 'd', { wait: false })).toMatchObject({ state: 'held', after: { how: 'expired' } })
  })

  test('counts anew from each renewal that it sees, however long it did not look', async () => {
    const { time, holder, observer } = setting()
    await claim(holder, 'a')
    await claim(observer, 'b', { wait: false })
    await time.advance(900)
    await renew(holder, 'a')
    await time.advance(900)
    expect(await claim(observer, 'c', { wait: false })).toMatchObject({ reason: 'refused' })
  })

  test.each(['asked for', 'watched', 'listed'])(
    'counts from when the document came, however long it took, where the lease was %s',
    async (how) => {
      const { time, shelf, holder } = setting()
      const store = shelf.store()
      let answer: ReturnType<typeof deferred<void>> | undefined
      const slowly = async <Result>(work: () => Promise<Result>): Promise<Result> => {
        await answer?.promise
        return work()
      }
      const observer = documentDriver<number>(
        { ...store, load: (keys) => slowly(() => store.load(keys)), list: (query) => slowly(() => store.list(query)) },
        time.environment,
      )
      await claim(holder, 'a')
      if (how === 'watched') await claim(observer, 'b', { ttlMs: 60_000 })
      answer = deferred()
      const asking =
        how === 'asked for'
          ? claim(observer, 'early', { wait: false })
          : how === 'listed'
            ? observer.list({})
            : undefined
      await time.advance(500)
      await renew(holder, 'a')
      await time.advance(300)
      answer.resolve()
      answer = undefined
      await asking
      await time.advance(1050)
      const again = (): Promise<ClaimStatus> =>
        how === 'watched' ? renew(observer, 'b', 60_000) : claim(observer, 'c', { wait: false })
      expect(await again()).not.toMatchObject({ state: 'held' })
      await time.advance(1)
      expect(await again()).toMatchObject({ state: 'held', after: { how: 'expired' } })
      await observer.close()
    },
  )

  test('leaves the leases of others as they were when it writes, also at first sight', async () => {
    const { shelf, holder, observer } = setting()
    await claim(holder, 'a')
    const before = shelf.read(key)?.claims[0]
    await claim(observer, 'b')
    expect(shelf.read(key)?.claims).toMatchObject([{ ...before }, { claim: { id: 'b' } }])
  })

  test('does not ask any wall clock: two that are hours apart agree', async () => {
    const shelf = new ClocklessShelf()
    const time = fakeTime()
    const ahead = { ...time.environment, wall: () => time.environment.wall() + 3_600_000 }
    const [holder, observer] = [documentDriver(shelf.store(), time.environment), documentDriver(shelf.store(), ahead)]
    await claim(holder, 'a')
    expect(await claim(observer, 'b', { wait: false })).toMatchObject({ reason: 'refused' })
    await time.advance(500)
    await renew(holder, 'a')
    await time.advance(700)
    expect(await claim(observer, 'c', { wait: false })).toMatchObject({ reason: 'refused' })
    await release(holder, 'a')
    const later = (await claim(observer, 'd')) as Extract<ClaimStatus, { state: 'held' }>
    await release(observer, 'd')
    // The clock that is behind gives no lower fence.
    expect(await claim(holder, 'e')).toMatchObject({ state: 'held', fence: later.fence + 1 })
  })

  test.each(['the uptime is set an hour ahead', 'the uptime is known in whole seconds only'])(
    'ends nothing early where %s: it does not count sleep',
    async (fault) => {
      const shelf = new ClocklessShelf()
      const time = fakeTime()
      let aheadMs = 0
      const awake = (): number => time.environment.now()
      const up = (): number => awake() + 5950 + aheadMs
      const uptime = fault.endsWith('ahead') ? up : () => Math.floor(up() / 1000) * 1000
      // The wall clock was set: the uptime is read at once.
      const clocks = { monotonic: awake, uptime, wall: () => time.environment.wall() + aheadMs }
      const now = sleepProofClock(clocks, uptime() - awake())
      const holder = documentDriver(shelf.store(), time.environment)
      const observer = documentDriver(shelf.store(), { ...time.environment, now, awake })
      await claim(holder, 'a')
      expect(await claim(observer, 'b', { wait: false })).toMatchObject({ reason: 'refused' })
      if (fault.endsWith('ahead')) aheadMs = 3_600_000
      await time.advance(101)
      // Leases of its own are counted with the sleep that there may have been.
      expect(now() - awake()).toBeGreaterThan(800)
      await time.advance(899)
      expect(await claim(observer, 'd', { wait: false })).toMatchObject({ reason: 'refused' })
    },
  )

  test('is not led astray by a reading that a later one has overtaken', () => {
    const observations = new Observations()
    const early = observations.begin()
    const late = observations.begin()
    observations.see('key', [{ id: 'a', beat: 'second' }], 20, late)
    observations.see('key', [{ id: 'a', beat: 'first' }], 30, early)
    expect(observations.firstSeenAt('key', { id: 'a', beat: 'second' })).toBe(20)
    expect(observations.firstSeenAt('key', { id: 'a', beat: 'first' })).toBeUndefined()
  })

  test.each(['before', 'after'])(
    'counts what it wrote from the answer, though readings that knew nothing of it came %s that',
    (when) => {
      const observations = new Observations()
      const old = [{ id: 'a', beat: 'old' }]
      const [early, late] = [observations.begin(), observations.begin()]
      if (when === 'before') observations.see('key', old, 10, early)
      observations.see('key', [{ id: 'a', beat: 'new' }], 20, observations.begin())
      observations.see('key', [], 30, late)
      observations.see('key', [{ id: 'a', beat: 'new' }], 1000, observations.begin())
      expect(observations.firstSeenAt('key', { id: 'a', beat: 'new' })).toBe(20)
      observations.see('key', [], 1010, observations.begin())
      expect(observations.firstSeenAt('key', { id: 'a', beat: 'new' })).toBeUndefined()
    },
  )

  test('forgets the key that it saw longest ago when there are too many, and counts it anew', () => {
    const observations = new Observations(2)
    for (const key of ['a', 'b', 'c']) observations.see(key, [{ id: key, beat: '1' }], 0, observations.begin())
    const known = ['a', 'b', 'c'].map((key) => observations.firstSeenAt(key, { id: key, beat: '1' }))
    expect(known).toEqual([undefined, 0, 0])
  })
})

test('a list of many locks does not put off the turn of a waiter: what it waits for is kept in mind', () => {
  const observations = new Observations(10, (key) => key.startsWith('awaited'))
  const see = (key: string, at: number): void =>
    observations.see(key, [{ id: key, beat: '1' }], at, observations.begin())
  for (let index = 0; index < 5; index += 1) see(`awaited-${index}`, 0)
  for (let index = 0; index < 1000; index += 1) see(`listed-${index}`, 1)
  const seenAt = (key: string): number | undefined => observations.firstSeenAt(key, { id: key, beat: '1' })
  for (let index = 0; index < 5; index += 1) expect(seenAt(`awaited-${index}`)).toBe(0)
  const listed = Array.from({ length: 1000 }, (_, index) => seenAt(`listed-${index}`))
  expect(listed.filter((at) => at !== undefined)).toHaveLength(5)
})

describe('a driver over a store without a clock', () => {
  test('spends its readings on claims that are waited for, not on those of clients that died', async () => {
    const { time, shelf, holder, observer } = setting()
    // As of clients that died behind a server: nobody asks any more.
    for (let index = 0; index < 50; index += 1) {
      await claim(observer, `dead-holder-${index}`, { key: `default/named:${index}` })
      await claim(observer, `dead-waiter-${index}`, { key: `default/named:${index}` })
    }
    await time.advance(60_000)
    const before = shelf.loads
    await time.advance(60_000)
    expect(shelf.loads).toBe(before)
    await Promise.all([holder.close(), observer.close()])
  })

  test('refuses a document that is damaged, whatever is there, and answers for other keys', async () => {
    const { shelf, holder } = setting()
    const lease = { claim: { ...plainClaim, id: 'x' }, state: 'held', order: 1, fence: 1, ttlMs: 1000, detached: false }
    const times = { enteredAt: 1, acquiredAt: 1, lastHeartbeat: 1, renewalCount: 0, expiresAt: 2 }
    const damaged = {
      null: null,
      list: [1],
      text: 'text',
      noClaims: { version: 1, lastFence: 1 },
      oddEnd: { version: 1, lastFence: 1, claims: [], ended: 5 },
      oddClaim: { version: 1, lastFence: 1, claims: [null] },
      // As a store with a clock has it: its times say nothing here.
      noBeat: { version: 1, lastFence: 1, claims: [{ ...lease, ...times }] },
    }
    for (const [name, document] of Object.entries(damaged)) {
      shelf.documents.set(`default/named:${name}`, { text: JSON.stringify(document), revision: 1 })
    }
    const names = ['whole', ...Object.keys(damaged)]
    const requests = names.map((id) => {
      return { op: 'claim', claim: { ...plainClaim, id, key: `default/named:${id}` } } as const
    })
    const [whole, ...others] = await holder.send(requests)
    expect(whole).toMatchObject({ state: 'held' })
    for (const status of others) expect(status).toMatchObject({ state: 'unknown', error: { code: 'UNAVAILABLE' } })
    for (const request of requests.slice(1)) {
      await expect(holder.send([request])).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    }
    expect((await holder.list({ key: 'default/named:whole' })).keys).toHaveLength(1)
    await expect(holder.list({ key: 'default/named:null' })).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    await holder.close()
  })

  test('closes though a reading is under way that its store never ends by itself', async () => {
    const shelf = new ClocklessShelf()
    const time = fakeTime()
    const store = shelf.store()
    let isHanging = false
    const closed = new AbortController()
    const hanging = (): Promise<never> =>
      new Promise((_, reject) => closed.signal.addEventListener('abort', () => reject(new Error('closed'))))
    const driver = documentDriver<number>(
      {
        ...store,
        load: (keys) => (isHanging ? hanging() : store.load(keys)),
        close: async () => closed.abort(),
      },
      time.environment,
    )
    await claim(driver, 'a')
    await claim(driver, 'b')
    isHanging = true
    await time.advance(500)
    await driver.close()
    expect(time.timers).toBe(0)
  })
})

describe('a driver of a store without a clock', () => {
  test('goes on counting from its own write, though a reading that overlapped it missed it', async () => {
    const time = fakeTime()
    const store = new ClocklessShelf().store()
    const [written, read, begun] = [deferred(), deferred(), deferred()]
    let held: 'swap' | 'load' | undefined
    const driver = documentDriver(
      {
        ...store,
        load: async (keys) => {
          const found = await store.load(keys)
          if (held === 'load') await read.promise
          return found
        },
        swap: async (swaps) => {
          if (held === 'swap') {
            begun.resolve()
            await written.promise
          }
          return store.swap(swaps)
        },
      },
      time.environment,
    )
    await claim(driver, 'a')
    held = 'swap'
    const renewing = renew(driver, 'a')
    await begun.promise
    held = 'load'
    const asking = claim(driver, 'b', { wait: false })
    held = undefined
    written.resolve()
    await renewing
    read.resolve()
    expect(await asking).toMatchObject({ reason: 'refused' })
    await time.advance(1051)
    expect(await claim(driver, 'c', { wait: false })).toMatchObject({ state: 'held', after: { how: 'expired' } })
  })

  test('takes a free key and leaves it without reading, and reads where it was wrong', async () => {
    const { time, shelf, guessing } = guesser()
    expect(await claim(guessing, 'a')).toMatchObject({ state: 'held' })
    expect(await release(guessing, 'a')).toMatchObject({ state: 'absent' })
    expect(shelf.loads).toBe(0)
    const other = documentDriver(shelf.store(), time.environment)
    expect(await claim(other, 'b')).toMatchObject({ state: 'held' })
    const before = shelf.loads
    expect(await claim(guessing, 'c', { wait: false })).toMatchObject({ reason: 'refused' })
    expect(shelf.loads).toBe(before + 1)
    // It knows the key by now.
    expect(await claim(guessing, 'd', { wait: false })).toMatchObject({ reason: 'refused' })
    expect(shelf.loads).toBe(before + 2)
  })

  test('leaves what it has just taken without reading, also after the machine was asleep', async () => {
    const { shelf, guessing } = guesser(3_600_000)
    await claim(guessing, 'a')
    expect(await release(guessing, 'a')).toMatchObject({ state: 'absent', reason: 'released' })
    expect(shelf.loads).toBe(0)
  })

  test('relies on nothing that it wrote more than a second ago: the store may have been restored', async () => {
    const { time, shelf, guessing } = guesser()
    await claim(guessing, 'a', { ttlMs: 60_000 })
    await time.advance(1001)
    expect(await renew(guessing, 'a', 60_000)).toMatchObject({ state: 'held' })
    expect(shelf.loads).toBe(1)
    expect(await renew(guessing, 'a', 60_000)).toMatchObject({ state: 'held' })
    expect(shelf.loads).toBe(1)
  })

  test('answers nothing from what it only guesses', async () => {
    const { time, shelf, guessing } = guesser()
    await claim(guessing, 'a')
    const other = documentDriver(shelf.store(), time.environment)
    await release(other, 'a')
    expect(await claim(guessing, 'b', { wait: false })).toMatchObject({ state: 'held' })
  })

  test('does not count anew what it has seen since, where it guesses from what it wrote before', async () => {
    const { time, shelf, guessing } = guesser()
    await claim(guessing, 'a')
    await release(guessing, 'a')
    await time.advance(100)
    await claim(documentDriver(shelf.store(), time.environment), 'b')
    expect((await guessing.list({})).keys).toHaveLength(1)
    await time.advance(800)
    expect(await claim(guessing, 'c', { wait: false })).toMatchObject({ reason: 'refused' })
    await time.advance(251)
    expect(await claim(guessing, 'd', { wait: false })).toMatchObject({ state: 'held', after: { how: 'expired' } })
  })

  test('notifies the driver of a claim that it grants or ends, also one that does not know its claim yet', async () => {
    const time = fakeTime()
    const shelf = new ClocklessShelf()
    const listeners = new Map<string, (claim: NotifiedOwner) => void>()
    const notifying = (): ClocklessStore<number> => ({
      ...shelf.store(),
      listen: (channel, onNotified) => void listeners.set(channel, onNotified),
      notify: (channel, notified) => listeners.get(channel)?.(notified),
    })
    const [holder, waiter] = [notifying(), notifying()].map((store) => documentDriver(store, time.environment)) as [
      LockDriver,
      LockDriver,
    ]
    await Promise.all([holder.open(), waiter.open()])
    const told: string[] = []
    waiter.listen?.((_key, id, notification) => told.push(`${id}: ${JSON.stringify(notification)}`))
    await claim(holder, 'a')
    await claim(waiter, 'b')
    await release(holder, 'a')
    expect(told).toEqual(['b: "poll"'])
    expect(await renew(waiter, 'b')).toMatchObject({ state: 'held' })
    // An answer that is overtaken by its notification.
    const [, tell] = [...listeners.values()]
    tell?.({ key, id: 'c' })
    await claim(waiter, 'c')
    await time.advance(1)
    expect(told.filter((text) => text === 'c: "poll"')).toHaveLength(2)
  })
})

describe('whoever waits on a store without a clock', () => {
  const pace = { minMs: 50, maxMs: 60_000, keysPerSecondMax: 1000 }

  /** A holder, and a waiter of another driver, with what the waiter is told. */
  async function inLine(wishes: { readonly held: Partial<Claim>; readonly waiting: Partial<Claim> }) {
    const time = fakeTime()
    const shelf = new ClocklessShelf()
    const [holder, waiter] = [0, 1].map(() => documentDriver(shelf.store(pace), time.environment)) as [
      LockDriver,
      LockDriver,
    ]
    onTestFinished(async () => void (await Promise.all([holder.close(), waiter.close()])))
    await claim(holder, 'a', wishes.held)
    await claim(waiter, 'b', wishes.waiting)
    const told: string[] = []
    waiter.listen?.((_key, id) => told.push(id))
    return { time, shelf, holder, waiter, told }
  }

  test('is told once the claim before it is over, grace and margin included', async () => {
    const { time, waiter, told } = await inLine({
      held: { ttlMs: 1000, graceMs: 2000 },
      waiting: { ttlMs: 600_000 },
    })
    await time.advance(3050)
    expect(told).toEqual([])
    await time.advance(200)
    expect(told).toEqual(['b'])
    expect(await renew(waiter, 'b', 600_000)).toMatchObject({ state: 'held', after: { how: 'expired' } })
  })

  test('reads its key twelve times in the shortest ttl that is stored there, however long its own', async () => {
    const { time, shelf, holder } = await inLine({ held: { ttlMs: 1200 }, waiting: { ttlMs: 600_000 } })
    await time.advance(1000)
    const before = shelf.loads
    for (let renewals = 0; renewals < 20; renewals += 1) {
      await renew(holder, 'a', 1200)
      await time.advance(300)
    }
    // The renewals have read, too, and the holder reads now and then.
    expect(shelf.loads - before - 20).toBeGreaterThanOrEqual(6000 / 100 - 2)
  })

  test('reads all its keys at once after a gap', async () => {
    const time = fakeTime()
    const shelf = new ClocklessShelf()
    let gap = (): void => {}
    const store: ClocklessStore<number> = { ...shelf.store(pace), listen: (_channel, _told, onGap) => (gap = onGap) }
    const [holder, waiter] = [
      documentDriver(shelf.store(pace), time.environment),
      documentDriver(store, time.environment),
    ]
    onTestFinished(async () => void (await Promise.all([holder.close(), waiter.close()])))
    await claim(holder, 'a', { ttlMs: 600_000 })
    await claim(waiter, 'b', { ttlMs: 600_000 })
    const told: string[] = []
    waiter.listen?.((_key, id) => told.push(id))
    await time.advance(60_000)
    await release(holder, 'a')
    gap()
    await time.advance(1)
    expect(told).toEqual(['b'])
  })
})

describe('a holder on a store without a clock', () => {
  test('is told that its lease is over, though nobody has removed it', async () => {
    const { time, holder } = setting()
    await claim(holder, 'a')
    const told: string[] = []
    holder.listen?.((_key, id) => told.push(id))
    await time.advance(900)
    expect(told).toEqual([])
    await time.advance(2000)
    expect(told).toEqual(['a'])
    await holder.close()
  })
})

describe('a hand-over within one process', () => {
  function watched() {
    const time = fakeTime()
    const shelf = new ClocklessShelf()
    const driver = documentDriver(shelf.store(), time.environment)
    const told: { readonly id: string; readonly notification: Notification }[] = []
    driver.listen?.((_key, id, notification) => told.push({ id, notification }))
    return { time, shelf, driver, told }
  }

  test('is told at once, with the grant itself: nobody asks the store for it, then or later', async () => {
    const { time, shelf, driver, told } = watched()
    await claim(driver, 'a', { ttlMs: 60_000 })
    await claim(driver, 'b', { ttlMs: 60_000 })
    const before = { loads: shelf.loads, swaps: shelf.swaps }
    await release(driver, 'a')
    await time.advance(0)
    const fence = shelf.read(key)?.claims[0]?.fence
    expect(told).toEqual([{ id: 'b', notification: expect.objectContaining({ state: 'held', fence }) as Notification }])
    expect({ loads: shelf.loads, swaps: shelf.swaps }).toEqual({ loads: before.loads + 1, swaps: before.swaps + 1 })
    await time.advance(15_000)
    expect(shelf.loads).toBeGreaterThan(before.loads + 1)
    expect(told).toHaveLength(1)
  })

  test('takes no time and one request, from the release to the lease of the next', async () => {
    const { time, shelf, driver } = watched()
    const locks = await createLocks({ driver, environment: time.environment, defaults: { ttl: 60_000 } })
    const first = await locks.acquire('orders')
    const [second, third] = [locks.acquire('orders'), locks.acquire('orders')]
    while (shelf.read(first.key)?.claims.length !== 3) await time.advance(1)
    const from = { at: time.environment.now(), swaps: shelf.swaps }
    await first.release()
    await (await second).release()
    const lease = await third
    expect({ at: time.environment.now(), swaps: shelf.swaps }).toEqual({ at: from.at, swaps: from.swaps + 2 })
    await lease.release()
    await locks.close()
  })

  test('gives the next no more time than others leave its claim', async () => {
    const { time, driver, told } = watched()
    await claim(driver, 'a', { ttlMs: 60_000 })
    await claim(driver, 'b', { ttlMs: 10_000 })
    await time.advance(4000)
    await release(driver, 'a')
    await time.advance(0)
    expect(told).toMatchObject([{ id: 'b', notification: { state: 'held', ttlMs: Math.floor(10_000 - 4000 / 0.95) } }])
  })

  test('reaches the next also if that has no answer yet that it waits', async () => {
    const { time, shelf, told, ...rest } = watched()
    await rest.driver.close()
    const answered = deferred<void>()
    let isHeldUp = false
    const store = shelf.store()
    const driver = documentDriver(
      {
        ...store,
        async swap(swaps, withinMs) {
          const isLate = isHeldUp
          isHeldUp = false
          const outcomes = await store.swap(swaps, withinMs)
          if (isLate) await answered.promise
          return outcomes
        },
      },
      time.environment,
    )
    driver.listen?.((_key, id, notification) => told.push({ id, notification }))
    await claim(driver, 'a')
    isHeldUp = true
    const waiting = claim(driver, 'b')
    while (shelf.read(key)?.claims.length !== 2) await time.advance(0)
    await release(driver, 'a')
    await time.advance(1)
    answered.resolve()
    expect(await waiting).toMatchObject({ state: 'waiting' })
    await time.advance(0)
    expect(told.at(-1)).toEqual({ id: 'b', notification: 'poll' })
    expect(await renew(driver, 'b')).toMatchObject({ state: 'held' })
  })

  test('is nothing to a driver whose claims are not concerned', async () => {
    const { time, shelf, driver, told } = watched()
    const other = documentDriver(shelf.store(), time.environment)
    await claim(driver, 'a')
    await claim(other, 'b')
    await release(driver, 'a')
    await time.advance(0)
    expect(told).toEqual([])
  })

  test('tells the holder at once that it was evicted', async () => {
    const { time, driver, told } = watched()
    await claim(driver, 'a', { ttlMs: 60_000 })
    const fence = (await renew(driver, 'a', 60_000)) as { readonly fence: number }
    await driver.send([{ op: 'evict', key, fence: fence.fence, reason: 'gone' }])
    await time.advance(0)
    expect(told).toMatchObject([{ id: 'a', notification: { state: 'absent', reason: 'evicted' } }])
  })
})

describe('a store that has no room for another claim', () => {
  test('lets those that are in renew and leave, also beside the one that is refused', async () => {
    // Pauses pass by themselves.
    const environment = { ...fakeTime().environment, timer: systemEnvironment().timer }
    const shelf = new ClocklessShelf()
    const store = shelf.store()
    const full = new LeaseholdError('UNAVAILABLE', 'There is no room.', { reason: 'full' })
    for (const refusesAll of [false, true]) {
      const driver = documentDriver(
        {
          ...store,
          async swap(swaps) {
            const outcomes = await Promise.all(
              swaps.map(async (swap) => {
                if (swap.document.claims.length > 2) return { unknown: full }
                return (await store.swap([swap]))[0] ?? ('conflict' as const)
              }),
            )
            if (refusesAll && outcomes.every((outcome) => typeof outcome === 'object')) throw full
            return outcomes
          },
        },
        environment,
      )
      await claim(driver, 'a')
      await claim(driver, 'b')
      const late = { ...plainClaim, id: 'c' }
      const statuses = await driver.send([
        { op: 'renew', key, id: 'a', ttlMs: 1000 },
        { op: 'claim', claim: late },
        { op: 'renew', key, id: 'b', ttlMs: 1000 },
      ])
      expect(statuses).toMatchObject([
        { state: 'held' },
        { state: 'unknown', error: { reason: 'full' } },
        { state: 'waiting' },
      ])
      const alone = driver.send([{ op: 'claim', claim: late }])
      if (refusesAll) await expect(alone).rejects.toBe(full)
      else expect(await alone).toMatchObject([{ state: 'unknown', error: { reason: 'full' } }])
      await release(driver, 'a')
      await release(driver, 'b')
    }
  })
})

describe('an owner on a store without a clock', () => {
  test('gets no more time when its claim is sent again, as others may have counted meanwhile', async () => {
    const { time, holder } = setting()
    expect(await claim(holder, 'a')).toMatchObject({ state: 'held', ttlMs: 1000 })
    await time.advance(400)
    // What has passed counts with a margin: this process's clock may be the slower one.
    expect(await claim(holder, 'a')).toMatchObject({ state: 'held', ttlMs: Math.floor(1000 - 400 / 0.95) })
  })

  test('counts the time for which its machine slept, as others were awake', async () => {
    const time = fakeTime()
    let asleepMs = 0
    const awake = (): number => time.environment.now()
    const environment = { ...time.environment, awake, now: () => awake() + asleepMs }
    const holder = documentDriver(new ClocklessShelf().store(), environment)
    await claim(holder, 'a')
    asleepMs = 600
    expect(await claim(holder, 'a')).toMatchObject({ state: 'held', ttlMs: Math.floor(1000 - 600 / 0.95) })
  })

  test('counts its lease from before the sending, however long the store took to write it', async () => {
    const time = fakeTime()
    const store = new ClocklessShelf().store()
    const writing = deferred()
    const holder = documentDriver<number>(
      {
        ...store,
        swap: async (swaps) => {
          const outcomes = await store.swap(swaps)
          await writing.promise
          return outcomes
        },
      },
      time.environment,
    )
    const claiming = claim(holder, 'a')
    await time.advance(300)
    writing.resolve()
    await claiming
    await time.advance(100)
    expect(await claim(holder, 'a')).toMatchObject({ state: 'held', ttlMs: Math.floor(1000 - 400 / 0.95) })
  })

  test('must renew a claim that its driver did not write before it may trust it', async () => {
    const { holder, observer } = setting()
    await claim(holder, 'a')
    expect(await claim(observer, 'a')).toMatchObject({ state: 'held', ttlMs: 1 })
    expect(await renew(observer, 'a')).toMatchObject({ state: 'held', ttlMs: 1000 })
  })

  test('trusts the shorter lease while a renewal for less is unanswered', async () => {
    const shelf = new ClocklessShelf()
    const time = fakeTime()
    const store = shelf.store()
    let isCut = false
    const holder = documentDriver(
      {
        ...store,
        swap: async (swaps) => {
          const outcomes = await store.swap(swaps)
          return isCut ? swaps.map(() => ({ unknown: new Error('no reply') })) : outcomes
        },
      },
      time.environment,
    )
    await claim(holder, 'a', { ttlMs: 5000 })
    isCut = true
    expect(await renew(holder, 'a', 200)).toMatchObject({ state: 'unknown' })
    isCut = false
    await time.advance(100)
    const again = await claim(holder, 'a', { ttlMs: 5000 })
    expect(again).toMatchObject({ state: 'held' })
    expect((again as { ttlMs: number }).ttlMs).toBeLessThanOrEqual(100)
  })

  // Two drivers send for one claim where its client fails over from one server to another.
  test('must renew a claim of another driver, though its own renewal of it was lost', async () => {
    const { time, shelf, holder } = setting()
    const store = shelf.store()
    let isCut = false
    const lost = new Error('no reply')
    const swap: typeof store.swap = async (swaps) => (isCut ? swaps.map(() => ({ unknown: lost })) : store.swap(swaps))
    const second = documentDriver({ ...store, swap }, time.environment)
    await claim(holder, 'a')
    await time.advance(900)
    isCut = true
    expect(await renew(second, 'a')).toMatchObject({ state: 'unknown' })
    isCut = false
    expect(await claim(second, 'a')).toMatchObject({ state: 'held', ttlMs: 1 })
    expect(await renew(second, 'a')).toMatchObject({ state: 'held', ttlMs: 1000 })
  })

  test('must renew a claim of another driver, though its own guess was that nobody had the key', async () => {
    const { time, shelf, guessing } = guesser()
    await claim(documentDriver(shelf.store(), time.environment), 'a')
    await time.advance(900)
    expect(await claim(guessing, 'a')).toMatchObject({ state: 'held', ttlMs: 1 })
    expect(await renew(guessing, 'a')).toMatchObject({ state: 'held', ttlMs: 1000 })
  })

  test('must renew a claim that another driver has renewed for less since', async () => {
    const { time, holder, observer } = setting()
    await claim(holder, 'a', { ttlMs: 10_000 })
    await time.advance(1000)
    await renew(observer, 'a', 2000)
    await time.advance(1500)
    expect(await claim(holder, 'a')).toMatchObject({ state: 'held', ttlMs: 1 })
  })

  test('that waits writes its place anew where another driver wrote it last, and is not told to hurry again', async () => {
    const { time, shelf, holder, observer } = setting()
    await claim(documentDriver(shelf.store(), time.environment), 'holder', { ttlMs: 60_000 })
    await claim(observer, 'a', { ttlMs: 10_000 })
    await renew(holder, 'a', 10_000)
    await time.advance(1000)
    expect(await renew(observer, 'a', 10_000)).toMatchObject({ state: 'waiting', ttlMs: 10_000 })
  })

  test('trusts a lease whose answer was lost, from before it was sent', async () => {
    const shelf = new ClocklessShelf()
    const time = fakeTime()
    const store = shelf.store()
    let isCut = true
    const swap: typeof store.swap = async (swaps) => {
      const outcomes = await store.swap(swaps)
      return isCut ? swaps.map(() => ({ unknown: new Error('no reply') })) : outcomes
    }
    const holder = documentDriver({ ...store, swap }, time.environment)
    expect(await claim(holder, 'a')).toMatchObject({ state: 'unknown' })
    await time.advance(400)
    expect(await claim(holder, 'a')).toMatchObject({ state: 'held', ttlMs: Math.floor(1000 - 400 / 0.95) })
    expect(await renew(holder, 'a', 5000)).toMatchObject({ state: 'unknown' })
    isCut = false
    // Longer than the lease that it replaces, and not known to be there.
    expect((await claim(holder, 'a')) as { ttlMs: number }).toMatchObject({ ttlMs: Math.floor(1000 - 400 / 0.95) })
  })

  test('keeps its lease when another client grants its conversion: observers count that from the grant', async () => {
    const { time, shelf, holder, observer } = setting()
    const late = documentDriver(shelf.store(), time.environment)
    await claim(holder, 'reader', { mode: 'shared' })
    await claim(observer, 'other', { mode: 'shared', ttlMs: 60_000 })
    await claim(holder, 'writer', { replaces: 'reader' })
    // The observer sees the conversion early on. Its owner renews only the lease that is to be replaced.
    await claim(observer, 'look', { wait: false })
    await time.advance(900)
    await renew(holder, 'reader')
    // One that sees both for the first time cannot tell which is older, and grants the conversion.
    await late.send([{ op: 'release', key, id: 'other' }])
    await time.advance(600)
    expect(await claim(observer, 'too-early', { wait: false })).toMatchObject({ reason: 'refused' })
  })

  test('that waits asks without writing, and writes to keep its place', async () => {
    const { time, shelf, holder, observer } = setting()
    await claim(holder, 'a', { ttlMs: 60_000 })
    await claim(observer, 'b')
    const written = shelf.swaps
    await time.advance(200)
    expect(await renew(observer, 'b')).toMatchObject({ state: 'waiting' })
    expect(shelf.swaps).toBe(written)
    await time.advance(100)
    expect(await renew(observer, 'b')).toMatchObject({ state: 'waiting', ttlMs: 1000 })
    expect(shelf.swaps).toBe(written + 1)
    // Another ttl is more than a question.
    expect(await renew(observer, 'b', 5000)).toMatchObject({ state: 'waiting', ttlMs: 5000 })
    expect(shelf.swaps).toBe(written + 2)
  })
})

describe('after a crash on a store without a clock', () => {
  const ttl = 30_000

  test('a waiter in line has the lock within 1.2 ttls', async () => {
    const { time, shelf, crash } = await crashed()
    const waiting = createLocks({
      driver: documentDriver(shelf.store(), time.environment),
      environment: time.environment,
    })
    const locks = await waiting
    const acquired = locks.acquire('x')
    await time.advance(3 * ttl)
    const crashedAt = crash()
    await time.advance(1.2 * ttl)
    const lease = await promptly(acquired)
    expect(lease?.held).toBe(true)
    expect(time.environment.now() - crashedAt).toBeLessThanOrEqual(1.2 * ttl)
    await locks.close()
  })

  test('a newcomer has it within 2.2 ttls, and nobody writes as long as nobody wants it', async () => {
    const { time, shelf, crash } = await crashed()
    await time.advance(ttl)
    crash()
    const written = shelf.swaps
    await time.advance(ttl)
    expect(shelf.swaps).toBe(written)
    const driver = documentDriver(shelf.store(), time.environment)
    const locks = await createLocks({ driver, environment: time.environment })
    const acquired = locks.acquire('x')
    await time.advance(1.2 * ttl)
    expect((await promptly(acquired))?.held).toBe(true)
    await locks.close()
  })

  test('the keys of many waiters are read within the budget', async () => {
    const { time, environment } = timeThatPasses()
    const shelf = new ClocklessShelf()
    const holder = documentDriver(shelf.store(), environment)
    const waiter = documentDriver(shelf.store({ minMs: 10, maxMs: 20, keysPerSecondMax: 5 }), environment)
    for (let index = 0; index < 40; index += 1) {
      await claim(holder, `holder-${index}`, { key: `key-${index}`, ttlMs: 600_000 })
      await claim(waiter, `waiter-${index}`, { key: `key-${index}`, ttlMs: 600_000 })
    }
    const before = shelf.loads
    await time.advance(20_000)
    expect(shelf.loads - before).toBeGreaterThan(80)
    expect(shelf.loads - before).toBeLessThanOrEqual(20 * 5 + 10)
    await Promise.all([holder.close(), waiter.close()])
  })

  test('each of many keys is read in its turn, however small the budget', async () => {
    const { time, environment } = timeThatPasses()
    const shelf = new ClocklessShelf()
    const holder = documentDriver(shelf.store(), environment)
    const store = shelf.store({ minMs: 10, maxMs: 20, keysPerSecondMax: 5 })
    const read = new Map<string, number>()
    const load = (keys: readonly string[]): ReturnType<typeof store.load> => {
      for (const each of keys) read.set(each, (read.get(each) ?? 0) + 1)
      return store.load(keys)
    }
    const waiter = documentDriver({ ...store, load }, environment)
    const keys = Array.from({ length: 40 }, (_, index) => `key-${index}`)
    for (const each of keys) {
      await claim(holder, `holder-${each}`, { key: each, ttlMs: 600_000 })
      await claim(waiter, `waiter-${each}`, { key: each, ttlMs: 600_000 })
    }
    read.clear()
    await time.advance(20_000)
    const reads = keys.map((each) => read.get(each) ?? 0)
    expect(Math.min(...reads)).toBeGreaterThanOrEqual(Math.max(...reads) - 1)
    await Promise.all([holder.close(), waiter.close()])
  })

  test('a damaged document hides no change of another key', async () => {
    const { time, environment } = timeThatPasses()
    const shelf = new ClocklessShelf()
    // Both keys are read at once.
    const pace = { minMs: 1000, maxMs: 1000, keysPerSecondMax: 100 }
    const [holder, observer] = [
      documentDriver(shelf.store(pace), environment),
      documentDriver(shelf.store(pace), environment),
    ]
    for (const each of ['damaged', 'sound']) {
      await claim(holder, `holder-${each}`, { key: each, ttlMs: 600_000 })
      await claim(observer, `waiter-${each}`, { key: each, ttlMs: 600_000 })
    }
    const notified: string[] = []
    observer.listen?.((each) => void notified.push(each))
    const text = JSON.stringify({ version: 1, lastFence: 1, claims: 5, nonce: 'x' })
    shelf.documents.set('damaged', { text, revision: 99 })
    await holder.send([{ op: 'release', key: 'sound', id: 'holder-sound' }])
    await time.advance(5000)
    expect(notified).toContain('sound')
    await Promise.all([holder.close(), observer.close()])
  })

  /** A holder whose process can be ended. */
  async function crashed() {
    const time = fakeTime()
    const shelf = new ClocklessShelf()
    let isDead = false
    const store = shelf.store()
    const dead = new Promise<never>(() => {})
    const driver = documentDriver<number>(
      {
        ...store,
        swap: (swaps) => (isDead ? dead : store.swap(swaps)),
        load: (keys) => (isDead ? dead : store.load(keys)),
      },
      time.environment,
    )
    const locks = await createLocks({ driver, environment: time.environment })
    await locks.acquire('x')
    const crash = (): number => {
      isDead = true
      return time.environment.now()
    }
    return { time, shelf, crash }
  }
})

function guesser(asleepMs = 0) {
  const time = fakeTime()
  const shelf = new ClocklessShelf()
  const store = shelf.store()
  const real = systemEnvironment()
  const awake = (): number => time.environment.now() - asleepMs
  // Pauses after lost races pass by themselves.
  const environment = { ...time.environment, awake, timer: real.timer.bind(real) }
  const guessing = documentDriver<number>(
    {
      ...store,
      absentRevision: 0,
      swap: async (swaps) => {
        const outcomes = await store.swap(swaps)
        return outcomes.map((outcome, index) =>
          outcome === 'swapped' ? { written: (swaps[index]?.revision ?? 0) + 1 } : outcome,
        )
      },
    },
    environment,
  )
  return { time, shelf, guessing }
}

function timeThatPasses() {
  const time = fakeTime()
  return { time, environment: time.environment }
}

/** The value of a promise that is settled by now; undefined: it is not. */
async function promptly<Value>(promise: Promise<Value>): Promise<Value | undefined> {
  return Promise.race([promise, new Promise<undefined>((resolve) => setImmediate(() => resolve(undefined)))])
}

function setting(): {
  readonly time: FakeTime
  readonly shelf: ClocklessShelf
  readonly holder: LockDriver
  readonly observer: LockDriver
} {
  const time = fakeTime()
  const shelf = new ClocklessShelf()
  const [holder, observer] = [0, 1].map(() => documentDriver(shelf.store(), time.environment)) as [
    LockDriver,
    LockDriver,
  ]
  return { time, shelf, holder, observer }
}

const key = 'default/named:x'

async function claim(driver: LockDriver, id: string, changes: Partial<Claim> = {}) {
  const [status] = await driver.send([{ op: 'claim', claim: { ...plainClaim, id, ...changes } }])
  return status as NonNullable<typeof status>
}

async function renew(driver: LockDriver, id: string, ttlMs = 1000) {
  const [status] = await driver.send([{ op: 'renew', key, id, ttlMs }])
  return status as NonNullable<typeof status>
}

async function release(driver: LockDriver, id: string) {
  const [status] = await driver.send([{ op: 'release', key, id }])
  return status as NonNullable<typeof status>
}

const plainClaim: Claim = {
  id: '',
  key,
  mode: 'exclusive',
  priority: 0,
  wait: true,
  ttlMs: 1000,
  graceMs: 0,
  runner: { id: 'runner', incarnation: 'one', host: 'here', pid: 1, client: 'client' },
}
