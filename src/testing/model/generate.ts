import * as fc from 'fast-check'
import type { EvictRule, Mode, Supports } from '../../core/contract/driver.ts'
import type { ModelStep, Step, WishedClaim } from './command.ts'

/** Few of each, so that claims meet. */
const keyCount = 2
const claimCount = 9
const runnerCount = 3

/** Scripts that ask a store for nothing it does not support. */
export function scripts(supports: Supports, commandsMax: number): fc.Arbitrary<ModelStep[]> {
  return fc.array(command(supports), { minLength: 1, maxLength: commandsMax, size: 'max' })
}

function command(supports: Supports): fc.Arbitrary<ModelStep> {
  const driver = fc.constantFrom<0 | 1>(0, 1)
  const single = fc.record({ type: fc.constant('send'), driver, steps: fc.tuple(step(supports)) })
  const several = fc.array(step(supports), { minLength: 2, maxLength: 5 })
  const batch = fc.record({ type: fc.constant('send'), driver, steps: several })
  const list = fc.record({ type: fc.constant('list'), key: fc.nat(keyCount - 1) })
  const pages = fc.record({ type: fc.constant('pages'), limit: fc.integer({ min: 1, max: 2 }) })
  const pass = fc.record({ type: fc.constant('pass'), ticks: ticksToPass })
  return fc.oneof(
    { weight: 12, arbitrary: single },
    { weight: 3, arbitrary: batch },
    { weight: 3, arbitrary: pass },
    { weight: 2, arbitrary: list },
    { weight: 1, arbitrary: pages },
  )
}

/** Mostly short, so that a script sees claims at every age; at times long enough to end them all. */
const ticksToPass = fc.oneof(
  { weight: 5, arbitrary: fc.integer({ min: 1, max: 4 }) },
  { weight: 1, arbitrary: fc.constant(30) },
)

function step(supports: Supports): fc.Arbitrary<Step> {
  const claim = fc.nat(claimCount - 1)
  const renew = {
    op: fc.constant('renew'),
    claim,
    ttl: ttlTicks,
    ...(supports.fence && { fenceLift: rarely(fc.integer({ min: 1, max: 50 })) }),
  }
  return fc.oneof(
    { weight: 8, arbitrary: fc.record({ op: fc.constant('claim'), claim, wish: wish(supports) }) },
    { weight: 4, arbitrary: fc.record(renew).map(withoutUndefined) },
    { weight: 4, arbitrary: fc.record({ op: fc.constant('release'), claim }) },
    { weight: supports.convert ? 1 : 0, arbitrary: fc.record({ op: fc.constant('withdraw'), claim }) },
    { weight: supports.evict.length > 0 ? 1 : 0, arbitrary: fc.record({ op: fc.constant('evict'), claim }) },
  )
}

const ttlTicks = fc.oneof(
  { weight: 3, arbitrary: fc.integer({ min: 1, max: 6 }) },
  { weight: 2, arbitrary: fc.integer({ min: 7, max: 25 }) },
)

function wish(supports: Supports): fc.Arbitrary<WishedClaim> {
  const { evict } = supports
  return fc
    .record({
      key: fc.nat(keyCount - 1),
      mode: supports.shared ? fc.constantFrom<Mode>('exclusive', 'shared', 'shared') : fc.constant<Mode>('exclusive'),
      limit: when(supports.limit, fc.constantFrom(undefined, undefined, 1, 2, 2, 2, 3)),
      range: when(supports.range, sometimes(range)),
      replaces: when(supports.convert, rarely(fc.nat(claimCount - 1))),
      priority: supports.priority ? fc.constantFrom(0, 0, 0, -3, 4) : fc.constant(0),
      wait: supports.queue ? fc.constantFrom(true, true, true, false) : fc.constant(false),
      evict: when(evict.length > 0, rarely(fc.constantFrom<EvictRule>(...evict))),
      stale: fc.integer({ min: 1, max: 6 }),
      ttl: ttlTicks,
      grace: supports.grace ? fc.constantFrom(0, 0, 0, 2, 5) : fc.constant(0),
      maxHold: when(supports.maxHold, rarely(fc.integer({ min: 1, max: 10 }))),
      runner: fc.nat(runnerCount - 1),
    })
    .map(({ limit, stale, ...rest }) =>
      withoutUndefined({
        ...rest,
        limit: rest.mode === 'shared' ? limit : undefined,
        stale: rest.evict === 'stale' ? stale : undefined,
      }),
    )
}

const range = fc
  .tuple(fc.nat(4), fc.integer({ min: 1, max: 3 }))
  .map(([start, length]): [number, number] => [start, start + length])

function sometimes<Value>(arbitrary: fc.Arbitrary<Value>): fc.Arbitrary<Value | undefined> {
  return fc.option(arbitrary, { nil: undefined, freq: 2 })
}

function rarely<Value>(arbitrary: fc.Arbitrary<Value>): fc.Arbitrary<Value | undefined> {
  return fc.oneof({ weight: 4, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary })
}

function when<Value>(supported: boolean, arbitrary: fc.Arbitrary<Value | undefined>): fc.Arbitrary<Value | undefined> {
  return supported ? arbitrary : fc.constant(undefined)
}

type Defined<Values> = { [Name in keyof Values]: Exclude<Values[Name], undefined> }

/** Leaves out what is undefined: an option that is absent is not the same as one that is undefined. */
function withoutUndefined<Values extends object>(values: Values): Defined<Values> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Defined<Values>
}
