import type { Mode, Range } from '../core/driver.ts'
import { LeaseholdError } from '../core/errors.ts'
import { boundOf, type ClaimState } from '../core/claim-state.ts'
import { rangeFault } from '../core/limits.ts'
import { isWithin, requestBounds, yearMs } from '../core/limits/bounds.ts'
import { textFault } from '../core/limits/texts.ts'

/** What passes a lease to another process or proves it to a server. The id in it is a secret. */
export interface LeaseProof {
  readonly version: 1
  readonly key: string
  readonly id: string
  readonly fence: number
  readonly ttlMs: number
  readonly range?: Range
  /** Absent: exclusive. */
  readonly mode?: Mode
  readonly limit?: number
  /** Absent: none. Some stores bound ttl and grace together, whoever renews. */
  readonly graceMs?: number
  /** A renewal for no longer than this was never answered: the store may carry it out yet, whoever has the lease by then. */
  readonly doubtMs?: number
}

/** What proves that a claim was granted with this fence. @internal */
export function proofOf(
  { claim, ttlMs, ...bounds }: Pick<ClaimState, 'claim' | 'ttlMs' | 'doubtMs' | 'elsewhereMs'>,
  fence: number,
): LeaseProof {
  const { key, id, range, mode, limit, graceMs } = claim
  const doubtMs = boundOf(bounds)
  return {
    version: 1,
    key,
    id,
    fence,
    ttlMs,
    ...(range !== undefined && { range }),
    ...(mode !== 'exclusive' && { mode }),
    ...(limit !== undefined && { limit }),
    ...(graceMs > 0 && { graceMs }),
    ...(doubtMs !== Infinity && { doubtMs }),
  }
}

/** A proof comes from outside: look at it before use. @internal */
export function checkProof(proof: LeaseProof): void {
  const fine =
    typeof proof === 'object' &&
    proof !== null &&
    proof.version === 1 &&
    textFault(proof.key, requestBounds.keyBytesMax) === undefined &&
    textFault(proof.id, requestBounds.idBytesMax) === undefined &&
    isWithin(proof.fence, requestBounds.positive) &&
    isDuration(proof.ttlMs, 1) &&
    (proof.mode === undefined || proof.mode === 'exclusive' || proof.mode === 'shared') &&
    (proof.limit === undefined || isWithin(proof.limit, requestBounds.permits)) &&
    (proof.range === undefined || rangeFault(proof.range) === undefined) &&
    (proof.graceMs === undefined || isDuration(proof.graceMs, 0)) &&
    (proof.doubtMs === undefined || isDuration(proof.doubtMs, 1))
  if (!fine) throw new LeaseholdError('INVALID', 'This is no proof of a lease. Pass what lease.toJSON() gave.')
}

function isDuration(value: unknown, least: number): boolean {
  return isWithin(value, { least, most: yearMs })
}
