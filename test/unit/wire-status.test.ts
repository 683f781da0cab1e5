import { expect, test } from 'vitest'
import { LeaseholdError } from '../../src/core/errors.ts'
import { fromWireStatus, toWireStatus } from '../../src/core/wire/replies.ts'

test.each([
  '{ "state": "held", "fence": 5, "ttlMs": 1000 }',
  '{ "state": "waiting", "ahead": 0, "ttlMs": 1000, "againMs": 1 }',
  '{ "state": "absent", "reason": "released" }',
])('%s is a status', (text) => {
  expect(fromWireStatus(JSON.parse(text))).toMatchObject(JSON.parse(text) as object)
})

test.each([
  '{ "state": "held", "fence": 5, "ttlMs": 1e999 }',
  '{ "state": "held", "fence": 5, "ttlMs": -1 }',
  '{ "state": "held", "fence": 1e999, "ttlMs": 1000 }',
  '{ "state": "held", "fence": 0, "ttlMs": 1000 }',
  '{ "state": "held", "fence": 5, "ttlMs": "1000" }',
  '{ "state": "held", "fence": 5, "ttlMs": 1000, "after": {} }',
  '{ "state": "waiting", "ahead": 0, "ttlMs": 1000, "againMs": 1e999 }',
  '{ "state": "absent", "reason": "bored" }',
  '{ "state": "unknown" }',
  '{ "__proto__": { "state": "held", "fence": 5, "ttlMs": 1000 } }',
  '[]',
  'null',
])('%s is none', (text) => {
  expect(fromWireStatus(JSON.parse(text))).toBeUndefined()
})

test.each([Infinity, NaN, -1, '5', null])(
  "a driver's error that says to retry after %s still arrives",
  (retryAfterMs) => {
    const error = new LeaseholdError('UNAVAILABLE', 'Full.', { reason: 'full', retryAfterMs: retryAfterMs as number })
    const sent = JSON.stringify(toWireStatus({ state: 'unknown', error }, () => error))
    const arrived = fromWireStatus(JSON.parse(sent))
    expect(arrived).toMatchObject({ state: 'unknown', error: { code: 'UNAVAILABLE', reason: 'full' } })
    expect(arrived).not.toHaveProperty('error.retryAfterMs')
  },
)

test('a time to retry after need not be whole: that of a quorum is not', () => {
  const text = '{ "state": "unknown", "error": { "code": "UNAVAILABLE", "message": "Wait.", "retryAfterMs": 56752.5 } }'
  expect(fromWireStatus(JSON.parse(text))).toMatchObject({ error: { retryAfterMs: 56_752.5 } })
})
