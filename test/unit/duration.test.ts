import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { LeaseholdError } from '../../src/core/errors.ts'
import { durationMs, parseDuration, formatDuration, positiveMs, type Duration } from '../../src/core/time/duration.ts'

describe('a duration', () => {
  test.each<[Duration, number]>([
    [0, 0],
    [1500, 1500],
    ['500ms', 500],
    ['30s', 30_000],
    ['1.5s', 1500],
    ['5m', 300_000],
    ['1h30m', 5_400_000],
    ['2d', 172_800_000],
  ])('%s is %d ms', (duration, milliseconds) => {
    expect(durationMs(duration, 'ttl')).toBe(milliseconds)
  })

  test.each(['', '30', 's', '-5s', '5 s', '1e3s', '5y', '1s'.repeat(60), Number.NaN, Infinity, -1])(
    'cannot be %j',
    (duration) => {
      expect(() => durationMs(duration as Duration, 'wait')).toThrow(/INVALID: wait is .*30s/)
    },
  )

  test('whatever is given is a whole number of milliseconds that clocks can add, or INVALID', () => {
    const text = fc.stringMatching(/^(\d{1,30}(\.\d{1,5})?(ms|s|m|h|d)){1,4}$/)
    fc.assert(
      fc.property(fc.oneof(text, fc.string(), fc.double(), fc.integer()), (given) => {
        const milliseconds = codeOrValue(() => durationMs(given as Duration, 'wait'))
        expect(milliseconds === 'INVALID' || (Number.isSafeInteger(milliseconds) && Number(milliseconds) >= 0)).toBe(
          true,
        )
      }),
      { numRuns: 5000 },
    )
  })

  test('from outside is read, or refused with a name for it', () => {
    expect(parseDuration('1m30s')).toBe(90_000)
    expect(() => parseDuration(undefined, 'LOCK_TTL')).toThrow(/INVALID: LOCK_TTL is undefined/)
    expect(() => parseDuration('5x', 'LOCK_TTL')).toThrow(/INVALID: LOCK_TTL is "5x"/)
  })

  test('of a lease is at least a millisecond', () => {
    expect(() => positiveMs(0, 'ttl')).toThrow(/at least 1 ms/)
  })

  test('is told to people in their units', () => {
    expect([850, 12_340, 245_000, 7_380_000].map(formatDuration)).toEqual([
      '850 ms',
      '12.3 s',
      '4 min 5 s',
      '2 h 3 min',
    ])
  })
})

function codeOrValue(make: () => number): number | string {
  try {
    return make()
  } catch (error) {
    return error instanceof LeaseholdError ? error.code : String(error)
  }
}
