import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { nextRenewalAt, RenewalSchedules } from '../../src/core/client/renewal-schedule.ts'
import type { Request } from '../../src/core/contract/driver.ts'
import { createLocks } from '../../src/index.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { fakeTime } from '../../src/testing/fake-time.ts'
import { seededRandom } from '../../src/testing/random.ts'

describe('the renewal schedule of a client', () => {
  test('brings every claim to the same moments within three renewals, wherever it began', () => {
    const sentAt = fc.double({ min: 0, max: 1e7, noNaN: true })
    fc.assert(
      fc.property(
        sentAt,
        fc.integer({ min: 30, max: 600_000 }),
        fc.double({ min: 0, max: 0.99, noNaN: true }),
        (from, everyMs, random) => {
          const schedule = new RenewalSchedules(() => random).choose(0)
          let at = Math.floor(from)
          for (let renewals = 0; renewals < 3; renewals += 1) {
            const next = nextRenewalAt(everyMs, schedule, at, at)
            expect(next - at).toBeGreaterThanOrEqual(Math.floor(0.6 * everyMs))
            expect(next - at).toBeLessThanOrEqual(everyMs)
            at = next
          }
          expect(Math.abs(at - schedule.originMs) % everyMs).toBe(0)
          // A timer is a little late, and so is the request: the claim stays where it is.
          expect(nextRenewalAt(everyMs, schedule, at + everyMs / 20, at + everyMs / 10)).toBe(at + everyMs)
        },
      ),
    )
  })

  test('renews the claims of another client at other moments', () => {
    const random = seededRandom(3)
    const origins = Array.from({ length: 100 }, () => new RenewalSchedules(random).choose(0).originMs % 1000)
    expect(new Set(origins).size).toBeGreaterThan(80)
  })

  test('divides very many claims evenly over a third of the heartbeat', () => {
    const schedules = new RenewalSchedules(seededRandom(5))
    const perMoment = new Map<number, number>()
    for (let claims = 0; claims < 100_000; claims += 1) {
      const moment = nextRenewalAt(10_000, schedules.choose(claims), 1_000_000, 1_000_000) % 10_000
      perMoment.set(moment, (perMoment.get(moment) ?? 0) + 1)
    }
    expect(perMoment.size).toBe(128)
    expect(Math.max(...perMoment.values())).toBeLessThan(3500)
  })

  test('sends the renewals of fifty locks taken at random moments in one batch a heartbeat', async () => {
    const time = fakeTime()
    const store = memory({ clock: time.clock })
    const batches: number[] = []
    const send = store.send.bind(store)
    const driver = Object.assign(store, {
      send(requests: readonly Request[]) {
        if (requests[0]?.op === 'renew') batches.push(requests.length)
        return send(requests)
      },
    })
    const locks = await createLocks({ driver, environment: time.environment })
    const random = seededRandom(11)
    for (let index = 0; index < 50; index += 1) {
      await locks.acquire(`orders/${index}`, { ttl: 3000, heartbeat: 1000 })
      await time.advance(Math.floor(random() * 100))
    }
    await time.advance(3000)
    batches.length = 0
    await time.advance(10_000)
    expect(batches).toEqual(Array.from({ length: 10 }, () => 50))
    await locks.close()
  })
})
