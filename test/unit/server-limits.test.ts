import { expect, test } from 'vitest'
import { resolveLimits, type ServerLimits } from '../../src/server/contract/limits.ts'

type LimitName = keyof ServerLimits

/** What all callers share, and the limit by which one token, or one address, leaves some of it to others. */
const shares: readonly (readonly [all: LimitName, share: LimitName])[] = [
  ['callsMax', 'callsPerTokenMax'],
  ['waitsMax', 'waitsPerTokenMax'],
  ['streamsMax', 'streamsPerTokenMax'],
  ['connectionsMax', 'connectionsPerAddressMax'],
  ['heldBytesMax', 'heldBytesPerConnectionMax'],
  ['claimsInAllMax', 'claimsPerTokenMax'],
  ['claimBytesMax', 'claimBytesPerTokenMax'],
  ['waitersPerKeyMax', 'waitersPerTokenMax'],
  // The sessions keep half of it for each token at most.
  ['claimsMax', 'claimsPerTokenMax'],
]

/** What bounds one call, one connection or one answer, and so is nobody else's. */
const ofOneCall: readonly LimitName[] = [
  'bodyBytesMax',
  'requestsPerCallMax',
  'partsPerCallMax',
  'callsPerConnectionMax',
  'listBytesMax',
  'urlLengthMax',
  'waitMaxMs',
]

test.each(shares)('of %s, one caller has half at most by default (%s)', (all, share) => {
  const limits = resolveLimits()
  expect(limits[share]).toBeLessThanOrEqual(limits[all] / 2)
})

test('every limit that callers share has a share', () => {
  const named = new Set([...shares.flat(), ...ofOneCall])
  const counted = Object.keys(resolveLimits()).filter((name) => name.includes('Max'))
  expect(counted.filter((name) => !named.has(name as LimitName))).toEqual([])
})
