import type { Claim, Mode, Range } from '../core/driver.ts'
import { LeaseholdError } from '../core/errors.ts'

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
}

/** What proves that a claim was granted with this fence. */
export function proofOf(claim: Claim, fence: number, ttlMs: number): LeaseProof {
  const { key, id, range, mode, limit } = claim
  return {
    version: 1,
    key,
    id,
    fence,
    ttlMs,
    ...(range !== undefined && { range }),
    ...(mode !== 'exclusive' && { mode }),
    ...(limit !== undefined && { limit }),
  }
}

/** A proof comes from outside: look at it before use. */
export function checkProof(proof: LeaseProof): void {
  const fine =
    typeof proof === 'object' &&
    proof !== null &&
    proof.version === 1 &&
    typeof proof.key === 'string' &&
    typeof proof.id === 'string' &&
    Number.isSafeInteger(proof.fence)
  if (!fine) throw new LeaseholdError('INVALID', 'This is no proof of a lease. Pass what lease.toJSON() gave.')
}
