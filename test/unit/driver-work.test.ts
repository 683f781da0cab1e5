import { expect, test } from 'vitest'
import type { ClaimStatus, Request } from '../../src/core/contract/driver.ts'
import { sendByWork, slicesByWork } from '../../src/drivers/kit/work.ts'
import { claimOf, claiming } from '../support/claims.ts'

const many = 500

function sizesOf(requests: readonly Request[]): number[] {
  const slices = slicesByWork(requests, 64)
  expect(slices.flat()).toEqual(requests)
  return slices.map(({ length }) => length)
}

test('five hundred plain claims of as many keys are one call', () => {
  expect(sizesOf(Array.from({ length: many }, (_, index) => claiming(claimOf(`orders/${index}`))))).toEqual([many])
})

test.each([
  ['of one key', () => claimOf('orders/42')],
  ['of shared locks', (index: number) => claimOf(`orders/${index}`, { mode: 'shared' })],
  ['of ranges', (index: number) => claimOf(`orders/${index}`, { range: { start: 0, end: 1 } })],
])('five hundred claims %s are calls of at most sixty-four', (_what, wish) => {
  const sizes = sizesOf(Array.from({ length: many }, (__, index) => claiming(wish(index))))
  expect(Math.max(...sizes)).toBeLessThanOrEqual(64)
  expect(sizes.length).toBeLessThanOrEqual(9)
})

const requests = Array.from({ length: many }, () => claiming(claimOf('orders/42')))
const held: ClaimStatus = { state: 'held', fence: 1, ttlMs: 1 }

test('if nothing was sent, the whole batch is rejected', async () => {
  await expect(sendByWork(requests, 64, () => Promise.reject(new Error('refused')))).rejects.toThrow('refused')
})

test.each([
  ['rejected', () => Promise.reject(new Error('lost'))],
  ['unknown', async (slice: readonly Request[]) => slice.map((): ClaimStatus => ({ state: 'unknown', error: 'lost' }))],
])('after a call that was %s the rest is unknown, and not tried', async (_how, fail) => {
  let calls = 0
  const statuses = await sendByWork(requests, 64, (slice) => {
    calls += 1
    return calls === 1 ? Promise.resolve(slice.map(() => held)) : fail(slice)
  })
  expect(calls).toBe(2)
  expect(statuses).toHaveLength(many)
  const answered = statuses.filter(({ state }) => state === 'held').length
  expect(answered).toBeGreaterThan(0)
  expect(statuses.slice(answered).every(({ state }) => state === 'unknown')).toBe(true)
})

test('after a call of which only a part is unknown the rest is sent, and each request has its own answer', async () => {
  let fence = 0
  const statuses = await sendByWork(requests, 64, async (slice) =>
    slice.map((_, index): ClaimStatus => {
      fence += 1
      return index % 2 === 0 ? { state: 'held', fence, ttlMs: 1 } : { state: 'unknown', error: 'lost' }
    }),
  )
  expect(fence).toBe(many)
  const fences = statuses.flatMap((status) => (status.state === 'held' ? [status.fence] : []))
  expect(fences.length).toBeLessThan(many)
  expect(new Set(fences).size).toBe(fences.length)
})
