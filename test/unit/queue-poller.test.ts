import { expect, test } from 'vitest'
import type { ClaimStatus } from '../../src/core/contract/driver.ts'
import { ClaimRegister } from '../../src/drivers/kit/claim-register.ts'
import { QueuePoller, type StoredPlace } from '../../src/drivers/kit/queue-poller.ts'
import { fakeTime } from '../../src/testing/index.ts'
import { claimOf } from '../support/claims.ts'
import { deferred } from '../support/deferred.ts'

type Places = ReadonlyMap<string, ReadonlyMap<string, StoredPlace>>

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
  const waiting: ClaimStatus = { state: 'waiting', ahead: 1, ttlMs: 1000, againMs: 1000 }
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
  const held: StoredPlace = { state: 'held', leaving: false, place: 0 }
  reading.resolve(
    new Map([
      [
        'a',
        new Map([
          ['early', held],
          ['late', held],
        ]),
      ],
    ]),
  )
  await time.advance(10)
  expect(polled).toEqual(['early', 'late'])
  await poller.close()
})
