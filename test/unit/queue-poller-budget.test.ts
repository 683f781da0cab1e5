import { expect, test } from 'vitest'
import type { Claim, ClaimStatus } from '../../src/core/contract/driver.ts'
import { ClaimRegister } from '../../src/drivers/kit/claim-register.ts'
import { QueuePoller, type QueuePollerSetup, type StoredPlace } from '../../src/drivers/kit/queue-poller.ts'
import { fakeTime } from '../../src/testing/index.ts'

test('a key that is always due leaves the others their share of the budget', async () => {
  // Two keys want a reading each 50 ms, where all have ten a second.
  const { time, watch, readings } = polling({ pauseMaxMs: (key) => (key === 'seldom' ? 1000 : 50) })
  for (const key of ['often', 'oftener', 'seldom']) watch(key, 'waiting')
  await time.advance(20_000)
  expect(readings('seldom')).toBeGreaterThanOrEqual(15)
  expect(readings('often')).toBeGreaterThanOrEqual(50)
})

test('claims that come to wait all the time do not put off the reading of their key', async () => {
  const { time, watch, readings } = polling({ keysPerSecondMax: 100 })
  for (let arrival = 0; arrival < 200; arrival += 1) {
    watch('busy', 'waiting', `claim-${arrival}`)
    await time.advance(20)
  }
  expect(readings('busy')).toBeGreaterThanOrEqual(4000 / 100)
})

test('a key is no longer read once its claims are gone from the store and their owners have not asked', async () => {
  const { time, watch, readings, told, poller, unwatched } = polling({ stored: new Map() })
  // As of a client that died behind a server: nobody asks about the claim any more.
  watch('left', 'held', 'claim', 500)
  await passing(time, 3000)
  expect(told).toEqual(['claim'])
  expect(unwatched).toEqual(['left'])
  const before = readings('left')
  await passing(time, 60_000)
  expect(readings('left')).toBe(before)
  await poller.close()
  expect(time.timers).toBe(0)
})

test('an owner is told of the end of a claim for as long as its lease may last', async () => {
  const { time, watch, readings } = polling({ stored: new Map() })
  watch('kept', 'held', 'claim', 60_000)
  await passing(time, 50_000)
  const before = readings('kept')
  await passing(time, 5000)
  expect(readings('kept')).toBeGreaterThan(before)
})

test('quiet times save up readings for two seconds and no more', async () => {
  const { time, watch, readings, poller } = polling({})
  await time.advance(600_000)
  const keys = Array.from({ length: 200 }, (_, index) => `key-${index}`)
  for (const key of keys) watch(key, 'waiting')
  await time.advance(1000)
  const read = keys.reduce((sum, key) => sum + readings(key), 0)
  expect(read).toBeGreaterThanOrEqual(20)
  expect(read).toBeLessThanOrEqual(30)
  await poller.close()
})

test('a budget of less than one reading a second is spent, too', async () => {
  const { time, watch, readings, poller } = polling({ keysPerSecondMax: 0.2 })
  watch('seldom', 'waiting')
  await passing(time, 30_000)
  expect(readings('seldom')).toBeGreaterThanOrEqual(5)
  expect(readings('seldom')).toBeLessThanOrEqual(7)
  await poller.close()
})

test('a key is read often again once its first waiter has moved up', async () => {
  const place = { state: 'waiting', leaving: false, place: 5 }
  const stored = new Map([['key', new Map([['claim', place]])]])
  const pace = { minMs: 50, maxMs: 5000, adaptive: true }
  const { time, watch, readings, poller } = polling({ stored, pace, keysPerSecondMax: 1000 })
  watch('key', 'waiting', 'claim')
  await passing(time, 60_000)
  const slow = readings('key')
  await passing(time, 10_000)
  expect(readings('key') - slow).toBeLessThanOrEqual(3)
  place.place = 1
  const before = readings('key')
  for (let passed = 0; readings('key') === before && passed < 10_000; passed += 10) await time.advance(10)
  const found = readings('key')
  expect(found).toBe(before + 1)
  await passing(time, 500)
  expect(readings('key') - found).toBeGreaterThanOrEqual(4)
  await poller.close()
})

test('a register forgets claims whose owners have not asked for a whole ttl, once there are many', () => {
  const register = new ClaimRegister()
  for (let index = 0; index < 5000; index += 1) register.note([claimOf('key', `dead-${index}`)], [held(100)], index)
  expect(register.of('key').size).toBeLessThanOrEqual(1100)
  expect(register.has('key', 'dead-4999')).toBe(true)
})

/** A poller over a register, with waiters that stay where they are unless `stored` says what is stored. */
function polling({
  stored,
  ...changes
}: Partial<QueuePollerSetup> & { readonly stored?: ReadonlyMap<string, ReadonlyMap<string, StoredPlace>> }) {
  const time = fakeTime()
  const claims = new ClaimRegister()
  const counts = new Map<string, number>()
  const told: string[] = []
  const unwatched: string[] = []
  const unchanged = (key: string): ReadonlyMap<string, StoredPlace> =>
    new Map([...claims.of(key)].map(([id, { state, leaving }]) => [id, { state, leaving, place: 1 }]))
  const poller = new QueuePoller({
    claims,
    pace: { minMs: 50, maxMs: 1000, adaptive: true },
    environment: time.environment,
    read: async (keys) => {
      for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1)
      return stored ?? new Map(keys.map((key) => [key, unchanged(key)]))
    },
    mustPoll: () => true,
    poll: (_key, id) => told.push(id),
    keysPerSecondMax: 10,
    unwatched: (key) => unwatched.push(key),
    ...changes,
  })
  const watch = (key: string, state: 'held' | 'waiting', id = key, ttlMs = 600_000): void => {
    const status = state === 'held' ? held(ttlMs) : waiting(ttlMs)
    poller.watch(claims.note([claimOf(key, id)], [status], time.environment.now()).keys)
  }
  return { time, watch, readings: (key: string) => counts.get(key) ?? 0, told, unwatched, poller }
}

async function passing(time: ReturnType<typeof fakeTime>, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 100) await time.advance(100)
}

function held(ttlMs: number): ClaimStatus {
  return { state: 'held', fence: 1, ttlMs, leaving: undefined, after: undefined }
}

function waiting(ttlMs: number): ClaimStatus {
  return { state: 'waiting', ahead: 0, ttlMs, againMs: ttlMs }
}

function claimOf(key: string, id: string) {
  const runner = { id: 'runner', incarnation: 'one', host: 'here', pid: 1, client: 'client' }
  const claim: Claim = { id, key, mode: 'exclusive', priority: 0, wait: true, ttlMs: 1000, graceMs: 0, runner }
  return { op: 'claim', claim } as const
}
