import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { ClaimStatus, HeldStatus } from '../../src/core/contract/driver.ts'
import { begin, step, type ClaimEvent, type ClaimState, type Stepped } from '../../src/core/client/claim-step.ts'
import { renewedInPlace, renewInPlace } from '../../src/core/client/renewal-in-place.ts'
import { claimOf } from '../support/claims.ts'

const fields = [
  'phase',
  'claim',
  'ttlMs',
  'heartbeatMs',
  'polling',
  'schedule',
  'grantSentAt',
  'sentAt',
  'deadline',
  'doubtMs',
  'elsewhereMs',
  'answeredAt',
  'nextAt',
  'inFlight',
  'askAgain',
  'failures',
  'lastError',
  'dangerAt',
  'leaving',
  'converting',
  'hold',
  'withdrawn',
] as const satisfies readonly (keyof ClaimState)[]

function seen(state: ClaimState): unknown {
  return Object.fromEntries(fields.map((field) => [field, state[field]]))
}

/** What the shortcut makes of an event; undefined if it leaves the event to `step`. */
function inPlace(state: ClaimState, event: ClaimEvent): Stepped | undefined {
  if (event.type === 'tick') {
    const request = renewInPlace(state, event.at)
    return request && [state, [{ type: 'send', request }]]
  }
  if (event.type !== 'answer' || event.elsewhere === true || event.status.state !== 'held') return undefined
  const { status, askedMs, sentAt, at } = event
  return renewedInPlace(state, status, askedMs, sentAt, at) ? [state, [{ type: 'renewed', own: true }]] : undefined
}

/** Mostly undefined. */
function rarely<Value>(value: Value): fc.Arbitrary<Value | undefined> {
  return fc.oneof({ weight: 15, arbitrary: fc.constant(undefined) }, fc.constant(value))
}

const ttls = fc.constantFrom(1000, 3000, 10_000)
const held = fc.record({
  state: fc.constant('held' as const),
  fence: fc.constant(7),
  ttlMs: ttls,
  leaving: rarely('preempted'),
}) as fc.Arbitrary<HeldStatus>
const status: fc.Arbitrary<ClaimStatus> = fc.oneof(
  { weight: 20, arbitrary: held },
  { weight: 1, arbitrary: fc.constant({ state: 'unknown' as const, error: new Error('no route') }) },
  { weight: 1, arbitrary: fc.constant({ state: 'waiting' as const, ahead: 1, ttlMs: 3000, againMs: 500 }) },
)

/** An event, `afterMs` after the one before; an answer is to a request that took `tookMs`. */
const move = fc.record({
  afterMs: fc.oneof(fc.integer({ min: 0, max: 2500 }), fc.double({ min: 0, max: 40, noNaN: true })),
  tookMs: fc.oneof({ weight: 4, arbitrary: fc.integer({ min: 0, max: 20 }) }, fc.integer({ min: 0, max: 2500 })),
  event: fc.oneof(
    { weight: 12, arbitrary: fc.constant({ type: 'tick' as const }) },
    {
      weight: 12,
      arbitrary: fc.record({
        type: fc.constant('answer' as const),
        status,
        askedMs: ttls,
        random: fc.constant(0.5),
        elsewhere: rarely(true),
      }),
    },
    { weight: 1, arbitrary: fc.record({ type: fc.constant('renew' as const), ttlMs: ttls }) },
    {
      weight: 1,
      arbitrary: fc.record({ type: fc.constant('elsewhere' as const), ttlMs: fc.option(ttls, { nil: undefined }) }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ type: fc.constant('converting' as const), ttlMs: fc.option(ttls, { nil: undefined }) }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ type: fc.constant('heartbeat' as const), everyMs: fc.constantFrom(300, 2000) }),
    },
  ),
})

const beginning = fc.record({
  maxHoldMs: fc.option(fc.constant(20_000), { nil: undefined }),
  hold: fc.option(fc.constant({ until: 15_000.5, ttlMinMs: 100 }), { nil: undefined }),
  schedule: fc.option(fc.constant({ originMs: 12_345, shift: 0.25 }), { nil: undefined }),
})

describe('a renewal in place', () => {
  test('does what a step does, or nothing', () => {
    const taken = { sends: 0, answers: 0, left: 0 }
    fc.assert(
      fc.property(
        beginning,
        fc.array(move, { minLength: 20, maxLength: 40 }),
        ({ maxHoldMs, hold, schedule }, moves) => {
          const claim = claimOf('key', { id: 'id', ttlMs: 10_000, maxHoldMs })
          let now = 0
          let [state] = step(begin(claim, { heartbeatMs: 2000, polling: undefined, schedule, hold }, 0)[0], {
            type: 'answer',
            at: 1,
            sentAt: 0,
            askedMs: 10_000,
            status: { state: 'held', fence: 7, ttlMs: 10_000 },
            random: 0,
          })
          for (const { afterMs, tookMs, event } of moves) {
            now += afterMs
            const at = now
            const happened = (
              event.type === 'answer'
                ? { ...event, at, sentAt: Math.max(0, Math.floor(at - tookMs)) }
                : { ...event, at }
            ) as ClaimEvent
            const before = seen(state)
            const copy = state.copy()
            const stepped = step(state, happened)
            const changed = inPlace(copy, happened)
            expect(seen(state)).toEqual(before)
            if (changed === undefined) {
              taken.left += 1
              expect(seen(copy)).toEqual(before)
            } else {
              taken[event.type === 'tick' ? 'sends' : 'answers'] += 1
              expect(seen(changed[0])).toEqual(seen(stepped[0]))
              expect(changed[1]).toEqual(stepped[1])
            }
            ;[state] = stepped
          }
        },
      ),
      { numRuns: 1000 },
    )
    // Neither way is only there for show.
    expect(Math.min(taken.sends, taken.answers, taken.left)).toBeGreaterThan(100)
  })
})
