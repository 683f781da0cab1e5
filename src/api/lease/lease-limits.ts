/** Checks durations against the limits of the store; errors name the caller's option. Every call with a ttl comes through here. */
import type { Supports } from '../../core/contract/driver.ts'
import { LeaseholdError } from '../../core/errors.ts'
import type { ClaimState } from '../../core/client/claim-step.ts'
import { blockingFault, durationMaxOf, ttlFault, ttlMaxOf } from '../../core/contract/limits.ts'
import { positiveMs, type Duration } from '../../core/time/duration.ts'

/**
 * Refuses a ttl that the store does not take, by itself or together with the grace of its claim: for a lease that is
 * claimed, renewed, resumed or converted alike. `option` is the name that the caller knows.
 */
export function checkTtl(ttlMs: number, graceMs: number, supports: Supports, option = 'ttl'): number {
  if (ttlFault(ttlMs, supports) !== undefined) throw invalid(`${option} is ${ttlMs} ms. ${ttlsOf(supports)}`)
  if (blockingFault(ttlMs, graceMs, supports) === undefined) return ttlMs
  const most = supports.ttlAndGraceMaxMs
  throw invalid(`${option} and grace are ${ttlMs + graceMs} ms together. This store takes ${most} ms at most.`)
}

/** The ttl of a renewal. Default: the ttl in force. */
export function renewalMs(
  ttl: Duration | undefined,
  state: Pick<ClaimState, 'claim' | 'ttlMs'>,
  supports: Supports,
): number {
  return ttl === undefined ? state.ttlMs : checkTtl(positiveMs(ttl, 'ttl'), state.claim.graceMs, supports)
}

/** Refuses a ttl that the caller did not name: of a preset, or the default. */
export function checkUnnamedTtl(ttlMs: number, supports: Supports, preset: string | undefined): void {
  if (ttlFault(ttlMs, supports) === undefined) return
  const whose = preset === undefined ? 'The default ttl' : `The ttl of lease: '${preset}'`
  throw invalid(`${whose} is ${ttlMs} ms. ${ttlsOf(supports)} Set ttl.`)
}

/** Refuses a grace, a longest hold or a silence that is longer than the store takes. */
export function checkLongest<Given extends number | undefined>(
  givenMs: Given,
  option: string,
  supports: Supports,
): Given {
  const most = durationMaxOf(supports)
  if (givenMs === undefined || givenMs <= most) return givenMs
  throw invalid(`${option} is ${givenMs} ms. This store takes ${most} ms at most.`)
}

function ttlsOf(supports: Supports): string {
  const limits = `This store takes ${supports.ttlMinMs} to ${ttlMaxOf(supports)} ms.`
  // Session locks have no ttl of their own: an option of the driver says how long the server keeps a silent session.
  if (supports.lifetime !== 'connection') return limits
  return `${limits} For longer leases, set ttlMs of postgresAdvisory, or ?ttl= in its URL.`
}

function invalid(message: string): LeaseholdError {
  return new LeaseholdError('INVALID', message)
}
