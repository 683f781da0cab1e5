import { beforeEach, expect, test } from 'vitest'
import type { Claim, Request, ClaimStatus } from '../../src/core/contract/driver.ts'
import { ClaimKeeper } from '../../src/drivers/etcd/leases/claim-keeper.ts'
import { fakeTime, type FakeTime } from '../../src/testing/index.ts'
import { claimOf } from '../support/claims.ts'

const ttlMs = 1000
const held: ClaimStatus = { state: 'held', fence: 1, ttlMs }
const waiting: ClaimStatus = { state: 'waiting', ahead: 0, ttlMs, againMs: ttlMs }

let time: FakeTime
let claims: ClaimKeeper
/** The ids of each call to end claims, and how to answer it. */
let ended: { ids: string[]; answer: (outcome: 'removed' | 'unknown') => void }[]

beforeEach(() => {
  time = fakeTime()
  ended = []
  claims = new ClaimKeeper(time.environment, (over) => {
    return new Promise((resolve) => ended.push({ ids: over.map(({ id }) => id), answer: resolve }))
  })
})

const claiming = (claim: Claim): Request => ({ op: 'claim', claim })
const renewing = ({ key, id }: Claim): Request => ({ op: 'renew', key, id, ttlMs })

async function answer(request: Request, status: ClaimStatus): Promise<void> {
  await claims.begin([request])
  claims.note([request], [status], () => 7, time.environment.now())
}

test('claims that nobody renews are ended when their time is over, all of one moment in one go', async () => {
  const [one, other, later] = [claimOf('a'), claimOf('b'), claimOf('c')]
  await answer(claiming(one), held)
  await answer(claiming(other), waiting)
  await time.advance(ttlMs / 2)
  await answer(claiming(later), held)
  await time.advance(ttlMs / 2)
  expect(ended.map(({ ids }) => ids)).toEqual([[one.id, other.id]])
  ended[0]?.answer('removed')
  await time.advance(0)
  expect(claims.find(one.id)).toBeUndefined()
  expect(claims.find(later.id)).toBeDefined()
})

test('a request for a claim holds off its end, and waits for one that is under way', async () => {
  const one = claimOf('a')
  await answer(claiming(one), held)
  await claims.begin([renewing(one)])
  await time.advance(5 * ttlMs)
  expect(ended).toEqual([])
  claims.note([renewing(one)], [held], () => 7, time.environment.now())
  await time.advance(ttlMs)
  expect(ended).toHaveLength(1)
  let begun = false
  const beginning = claims.begin([renewing(one)]).then(() => (begun = true))
  await time.advance(0)
  expect(begun).toBe(false)
  ended[0]?.answer('removed')
  await beginning
  claims.note([renewing(one)], [{ state: 'absent', reason: 'expired' }], () => 0, time.environment.now())
  expect(claims.find(one.id)).toBeUndefined()
})

test('an end that was not answered is tried again, and in doubt until the claim has been renewed', async () => {
  const one = claimOf('a')
  await answer(claiming(one), held)
  await time.advance(ttlMs)
  ended[0]?.answer('unknown')
  await time.advance(ttlMs)
  expect(ended).toHaveLength(2)
  ended[1]?.answer('unknown')
  await time.advance(0)
  expect(claims.find(one.id)?.isUncertain).toBe(true)
  await answer(renewing(one), held)
  expect(claims.find(one.id)?.isUncertain).toBe(false)
})

test('a conversion is not ended before the claim whose place it may have taken', async () => {
  const reader = claimOf('a', { mode: 'shared' })
  const writer = claimOf('a', { replaces: reader.id })
  await answer(claiming(writer), waiting)
  await time.advance(ttlMs / 2)
  await answer(claiming(reader), held)
  await time.advance(ttlMs / 2)
  expect(ended).toEqual([])
  await time.advance(ttlMs / 2)
  expect(ended.flatMap(({ ids }) => ids).toSorted()).toEqual([reader.id, writer.id].toSorted())
})

test('a claim that may be made yet is ended in time though its release has found none', async () => {
  const one = claimOf('a', { ttlMs })
  await answer(claiming(one), { state: 'unknown', error: new Error('lost') })
  await time.advance(ttlMs / 2)
  await answer({ op: 'release', key: 'a', id: one.id }, { state: 'absent', reason: 'unknown' })
  expect(claims.waitingFor('a')).toEqual([])
  await time.advance(ttlMs / 2)
  expect(ended.map(({ ids }) => ids)).toEqual([[one.id]])
  ended[0]?.answer('removed')
  await time.advance(0)
  expect(claims.find(one.id)).toBeUndefined()
})

test('a claim whose outcome is not known is ended in time, should it have been made', async () => {
  const one = claimOf('a', { ttlMs })
  await answer(claiming(one), { state: 'unknown', error: new Error('lost') })
  await time.advance(ttlMs)
  expect(ended.map(({ ids }) => ids)).toEqual([[one.id]])
  claims.clear()
  expect(time.timers).toBe(0)
})

test('no claim is ended before its time is over', async () => {
  const one = claimOf('a')
  await answer(claiming(one), held)
  await time.advance(ttlMs - 1)
  expect(ended).toEqual([])
  await time.advance(1)
  expect(ended).toHaveLength(1)
})

test('a renewal whose outcome is not known puts the end off, as it may have been carried out', async () => {
  const one = claimOf('a')
  await answer(claiming(one), held)
  await time.advance(ttlMs - 100)
  await answer(renewing(one), { state: 'unknown', error: new Error('lost') })
  await time.advance(ttlMs - 1)
  expect(ended).toEqual([])
  await time.advance(1)
  expect(ended).toHaveLength(1)
})

test('a request that begins when the end is due, and not yet carried out, holds it off', async () => {
  const deferred: (() => void)[] = []
  const environment = { ...time.environment, defer: (action: () => void) => void deferred.push(action) }
  const keeper = new ClaimKeeper(environment, async (over) => {
    ended.push({ ids: over.map(({ id }) => id), answer: () => {} })
    return 'removed'
  })
  const one = claimOf('a')
  await keeper.begin([claiming(one)])
  keeper.note([claiming(one)], [held], () => 7, environment.now())
  await time.advance(ttlMs)
  expect(deferred).toHaveLength(1)
  await keeper.begin([renewing(one)])
  for (const action of deferred) action()
  expect(ended).toEqual([])
})

test('a claim that is sent again is trusted no longer than before: only a renewal writes anew', async () => {
  const one = claimOf('a')
  await answer(claiming(one), held)
  const trusted = claims.find(one.id)?.trustedUntil
  await time.advance(ttlMs / 2)
  await answer(claiming(one), held)
  expect(claims.find(one.id)?.trustedUntil).toBe(trusted)
  await answer(renewing(one), held)
  expect(claims.find(one.id)?.trustedUntil).toBe((trusted ?? 0) + ttlMs / 2)
})
