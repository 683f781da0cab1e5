import { describe, expect, onTestFinished, test } from 'vitest'
import { ClaimRegister } from '../../src/drivers/kit/claim-register.ts'
import { QueuePoller, type StoredPlace } from '../../src/drivers/kit/queue-poller.ts'
import { fakeTime } from '../../src/testing/index.ts'
import { claimOf, claiming } from '../support/claims.ts'
import { deferred } from '../support/deferred.ts'

type Places = ReadonlyMap<string, ReadonlyMap<string, StoredPlace>>

const pollEveryMs = 10
const waiting = { state: 'waiting', ahead: 0, ttlMs: 60_000, againMs: 60_000 } as const
const held = { state: 'held', fence: 1, ttlMs: 60_000 } as const

/** A claim that waits, and what the store has of it, which the test sets. */
function watchedClaim() {
  const { environment, advance } = fakeTime()
  const claims = new ClaimRegister()
  const claim = claimOf('a')
  const store: { place: StoredPlace | undefined; reads: number } = {
    place: { state: 'waiting', leaving: false, place: 1 },
    reads: 0,
  }
  const polled: string[] = []
  const poller = new QueuePoller({
    claims,
    pace: { minMs: pollEveryMs, maxMs: pollEveryMs, adaptive: false },
    environment,
    read: async () => {
      store.reads += 1
      return new Map([['a', new Map(store.place === undefined ? [] : [[claim.id, store.place]])]])
    },
    mustPoll: () => true,
    poll: (_key, id) => polled.push(id),
  })
  onTestFinished(() => poller.close())
  poller.watch(claims.note([claiming(claim)], [waiting], environment.now()).keys)
  const asks = (): unknown => claims.note([claiming(claim)], [waiting], environment.now())
  return { advance, claim, asks, store, polled }
}

describe('whoever waits where changes cannot be watched', () => {
  test('is left alone as long as nothing has changed', async () => {
    const { advance, store, polled } = watchedClaim()
    await advance(10 * pollEveryMs)
    expect(store.reads).toBeGreaterThan(5)
    expect(polled).toEqual([])
  })

  test.each<[string, StoredPlace | undefined]>([
    ['is granted', { state: 'held', leaving: false, place: 0 }],
    ['is gone', undefined],
    ['waits behind a claim that is over', { state: 'waiting', leaving: false, place: 1, isDue: true }],
  ])('is told to ask when its claim %s, once until it has its answer', async (_, place) => {
    const { advance, claim, asks, store, polled } = watchedClaim()
    store.place = place
    await advance(10 * pollEveryMs)
    expect(store.reads).toBeGreaterThan(5)
    expect(polled).toEqual([claim.id])
    asks()
    await advance(10 * pollEveryMs)
    expect(polled).toEqual([claim.id, claim.id])
  })
})

test('an answer that differs from what was known is a change that another has made, unless it answers a release', () => {
  const claims = new ClaimRegister()
  const claim = claimOf('a')
  const { key, id, ttlMs } = claim
  const found = (...noted: Parameters<ClaimRegister['note']>) => claims.note(...noted).found
  expect(found([claiming(claim)], [waiting], 0)).toEqual([])
  const renewal = { op: 'renew', key, id, ttlMs } as const
  expect(found([renewal], [waiting], 0)).toEqual([])
  expect(found([renewal], [held], 0)).toEqual([{ key, id }])
  expect(found([{ op: 'release', key, id }], [{ state: 'absent', reason: 'released' }], 0)).toEqual([])
  expect(claims.has(key, id)).toBe(false)
})

test('a claim that was made while its key was being read is judged by the next reading', async () => {
  const time = fakeTime()
  const claims = new ClaimRegister()
  const polled: string[] = []
  let reading = deferred<Places>()
  const poller = new QueuePoller({
    claims,
    pace: { minMs: 10, maxMs: 10, adaptive: false },
    environment: time.environment,
    read: () => reading.promise,
    mustPoll: () => true,
    poll: (_key, id) => polled.push(id),
  })
  const queue = (id: string): void => {
    const wanted = claimOf('a', { id })
    poller.watch(claims.note([{ op: 'claim', claim: wanted }], [waiting], 0).keys)
  }
  queue('early')
  await time.advance(10)
  queue('late')
  const place: StoredPlace = { state: 'waiting', leaving: false, place: 1 }
  const answered = reading
  reading = deferred()
  answered.resolve(new Map([['a', new Map([['early', place]])]]))
  await time.advance(10)
  expect(polled).toEqual([])
  // Both have been let in.
  const granted: StoredPlace = { state: 'held', leaving: false, place: 0 }
  reading.resolve(
    new Map([
      [
        'a',
        new Map([
          ['early', granted],
          ['late', granted],
        ]),
      ],
    ]),
  )
  await time.advance(10)
  expect(polled).toEqual(['early', 'late'])
  await poller.close()
})
