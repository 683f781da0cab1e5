import { describe, expect, onTestFinished, test } from 'vitest'
import type { LockDriver, Notification } from '../../src/core/contract/driver.ts'
import { LeaseholdError } from '../../src/core/errors.ts'
import { systemEnvironment } from '../../src/core/time/environment.ts'
import { PolledDriver } from '../../src/drivers/document/polled-driver.ts'
import { fakeTime, type FakeTime } from '../../src/testing/index.ts'
import { claim, claimOf, release, renew } from '../support/claims.ts'
import { DocumentShelf } from './support/document-shelf.ts'

const key = 'default/named:x'

/** Drivers of one shelf, whose clock is the time that the test moves. */
class Bench {
  readonly time = fakeTime()
  readonly shelf = new DocumentShelf(() => this.time.environment.now())
  reads = 0

  async driver(changes: Partial<ReturnType<DocumentShelf['store']>> = {}, timed: FakeTime = this.time) {
    const store = { ...this.shelf.store(), ...changes }
    const real = systemEnvironment()
    const driver: LockDriver = new PolledDriver<true, number>(
      {
        name: 'polled',
        subject: 'This store',
        supports: store.supports,
        pace: { minMs: 10, maxMs: 100, adaptive: true },
        open: async () => true,
        close: async () => {},
        begin: () => ({ load: (keys) => store.load(keys), swap: (swaps) => store.swap(swaps) }),
        read: async (_opened, keys) => {
          this.reads += 1
          const { now, loaded } = await this.shelf.store().load(keys)
          const found = keys.flatMap((name, index) => {
            const document = loaded[index]?.document
            return document === undefined ? [] : [[name, document] as const]
          })
          return { now, documents: new Map(found) }
        },
        list: async () => ({ now: this.shelf.time, keys: [] }),
        dataAgeMs: async () => 0,
        errorOf: (error) => new LeaseholdError('UNAVAILABLE', String(error)),
      },
      // Pauses after lost races pass by themselves.
      timed === this.time ? timed.environment : { ...timed.environment, timer: real.timer.bind(real) },
    )
    onTestFinished(() => driver.close())
    await driver.open()
    return driver
  }
}

/** What the owner of a claim is told. */
function heard(driver: LockDriver, wanted: { readonly id: string }): Notification[] {
  const notifications: Notification[] = []
  driver.listen?.((_key, id, notification) => void (id === wanted.id && notifications.push(notification)))
  return notifications
}

describe('a driver that polls documents', () => {
  test.each([600, 575])(
    'does not take a renewal that came while it read slowly for a clock set back: %i ms by its own clock',
    async (ownMs) => {
      const bench = new Bench()
      const { shelf, time } = bench
      const holder = await bench.driver()
      const held = claimOf(key, { ttlMs: 1000 })
      const own = fakeTime()
      const store = shelf.store()
      const slow = await bench.driver(
        {
          async load(keys) {
            const { now, wall } = await store.load([])
            // The clock was read, and the documents come 600 ms later: meanwhile the holder has renewed.
            time.block(600)
            own.block(ownMs)
            await renew(holder, held)
            return { now, wall, loaded: (await store.load(keys)).loaded }
          },
        },
        own,
      )
      await claim(holder, held)
      await time.advance(100)
      const endsAt = time.environment.now() + 600 + 1000
      expect(await claim(slow, claimOf(key))).toMatchObject({ state: 'waiting' })
      const [stored] = (await store.load([key])).loaded
      expect(stored?.document?.claims[0]).toMatchObject({ expiresAt: endsAt, renewalCount: 1 })
    },
  )

  test('tells whoever waits that another client has let it in', async () => {
    const bench = new Bench()
    const [one, other] = [await bench.driver(), await bench.driver()]
    const [held, waiting] = [claimOf(key), claimOf(key)]
    await claim(one, held)
    await claim(other, waiting)
    const told = heard(other, waiting)
    await bench.time.advance(1000)
    expect(told).toEqual([])
    await release(one, held)
    await bench.time.advance(200)
    expect(told).toEqual(['poll'])
    expect(await renew(other, waiting)).toMatchObject({ state: 'held' })
  })

  test('tells whoever waits behind a claim that is over, and not before its grace is', async () => {
    const bench = new Bench()
    const [one, other] = [await bench.driver(), await bench.driver()]
    const [dying, waiting] = [claimOf(key, { ttlMs: 1000, graceMs: 2000 }), claimOf(key)]
    await claim(one, dying)
    await claim(other, waiting)
    const told = heard(other, waiting)
    await bench.time.advance(2999)
    expect(told).toEqual([])
    await bench.time.advance(200)
    expect(told).toEqual(['poll'])
    expect(await renew(other, waiting)).toMatchObject({ state: 'held', after: { how: 'expired' } })
  })

  test('tells its own waiter at once what a neighbour has changed, without a reading', async () => {
    const bench = new Bench()
    const driver = await bench.driver()
    const [held, waiting] = [claimOf(key), claimOf(key)]
    await claim(driver, held)
    await claim(driver, waiting)
    const told = heard(driver, waiting)
    const before = bench.reads
    await release(driver, held)
    await bench.time.advance(0)
    expect(told).toEqual([expect.objectContaining({ state: 'held' })])
    expect(bench.reads).toBe(before)
  })

  test('reads a key once for all that wait for it', async () => {
    const bench = new Bench()
    const [one, other] = [await bench.driver(), await bench.driver()]
    await claim(one, claimOf(key))
    for (let index = 0; index < 20; index += 1) await claim(other, claimOf(key))
    const before = bench.reads
    await bench.time.advance(1000)
    expect(bench.reads - before).toBeGreaterThan(5)
    // Both drivers read, each at most every ten milliseconds.
    expect(bench.reads - before).toBeLessThan(120)
  })
})
