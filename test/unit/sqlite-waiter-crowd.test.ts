import { expect, test } from 'vitest'
import type { Claim, LockDriver } from '../../src/core/contract/driver.ts'
import type { LivenessStamp } from '../../src/core/machine/liveness.ts'
import { ask, claim, claimOf, release, renew } from '../support/claims.ts'
import { scratch } from '../sqlite/scratch.ts'

const { file, driver } = scratch()

/** More waiters for ranges than the driver reads one by one. */
const many = 12

/** Processes on one machine, whose clock and deaths a test sets. */
function machine() {
  const self = {
    time: 5000,
    dead: new Set<number>(),
    start: (pid: number, boot = 'boot-1'): Promise<LockDriver> =>
      driver({
        file: file(),
        environment: {
          boot,
          clock: { now: () => self.time, wall: () => 1_700_000_000_000 },
          process: { namespace: '1', pid, started: 1 },
          isGone: ({ pid: other }: LivenessStamp) => self.dead.has(other),
        },
      }),
  }
  return self
}

function ranged(id: string, place: number, wish: Partial<Claim> = {}): Claim {
  return claimOf('key', { id, range: { start: place * 10, end: place * 10 + 5 }, ...wish })
}

/** Each range is held, and a claim waits for it. */
async function fill(store: LockDriver): Promise<void> {
  for (let place = 0; place < many; place += 1) {
    await claim(store, ranged(`holder ${place}`, place))
    expect(await claim(store, ranged(`waiter ${place}`, place))).toMatchObject({ state: 'waiting' })
  }
}

/** Waits for a range that is held, and for the free range beside it. */
const wide = claimOf('key', { id: 'wide', range: { start: 200, end: 215 }, ttlMs: 1000 })
/** Waits for nothing but that waiter. */
const next = ranged('next', 21)

test('among many waiters for ranges, a waiter whose process died holds up nobody', async () => {
  const all = machine()
  const [one, two] = [await all.start(1), await all.start(2)]
  await fill(one)
  await claim(one, ranged('holder', 20))
  await claim(two, wide)
  expect(await claim(one, next)).toMatchObject({ state: 'waiting' })
  all.dead.add(2)
  expect(await renew(one, next)).toMatchObject({ state: 'held' })
})

test('among many waiters for ranges, a reader of the whole key whose process died leaves the queue', async () => {
  const all = machine()
  const [one, two] = [await all.start(1), await all.start(2)]
  await fill(one)
  const reader = claimOf('key', { id: 'reader', mode: 'shared' })
  await claim(two, reader)
  const behind = ranged('behind', 30)
  expect(await claim(one, behind)).toMatchObject({ state: 'waiting' })
  all.dead.add(2)
  expect(await renew(one, behind)).toMatchObject({ state: 'held' })
})

test('among many waiters for ranges, a waiter of another boot has its ttl from when it was first seen', async () => {
  const all = machine()
  const one = await all.start(1)
  await fill(one)
  await claim(one, ranged('holder', 20))
  // By our clock, its lease would be over in half its ttl.
  all.time -= 500
  await claim(await all.start(2, 'boot-0'), wide)
  all.time += 500
  expect(await claim(one, next)).toMatchObject({ state: 'waiting' })
  all.time += 999
  expect(await renew(one, next)).toMatchObject({ state: 'waiting' })
  all.time += 1
  expect(await renew(one, next)).toMatchObject({ state: 'held' })
})

test('among many waiters for ranges, leases that a clock set back has stretched are cut', async () => {
  const all = machine()
  const one = await all.start(1)
  await claim(one, ranged('holder', 20))
  await claim(one, ranged('silent', 20, { ttlMs: 1000 }))
  await claim(one, ranged('next', 20))
  await fill(one)
  all.time -= 4000
  await ask(one, { op: 'release', key: 'key', id: 'nobody' })
  all.time += 1000
  await release(one, ranged('holder', 20))
  expect(await renew(one, ranged('next', 20))).toMatchObject({ state: 'held' })
})
