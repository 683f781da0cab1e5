import type { Mode, Range } from '../../core/contract/driver.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { boundOf, type ClaimState } from '../../core/client/claim-step.ts'
import { rangeFault } from '../../core/contract/limits.ts'
import { isWithin, requestBounds, yearMs, textFault } from '../../core/contract/bounds.ts'
import { covers, describeScope, splitStoreKey, type Scope } from '../../core/contract/scope.ts'
import type { Client } from '../client/client.ts'

/** Passes a lease to another process, or proves it to a server. The id in it is a secret. */
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
  /** Absent: none. Some stores bound ttl and grace together, also for the process that resumes the lease. */
  readonly graceMs?: number
  /** The shortest ttl of renewals that were never answered: the store may still carry them out after the lease was resumed. */
  readonly doubtMs?: number
}

/** The proof that a claim was granted with this fence. @internal */
export function proofOf(
  state: Pick<ClaimState, 'claim' | 'ttlMs' | 'doubtMs' | 'elsewhereMs'>,
  fence: number,
): LeaseProof {
  const { claim, ttlMs } = state
  const { key, id, range, mode, limit, graceMs } = claim
  const doubtMs = boundOf(state)
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

/** Checks a proof, which comes from outside, before use. @internal */
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
  if (!fine)
    throw new LeaseholdError(
      'INVALID',
      'This is no proof of a lease. Pass the result of lease.toJSON() or lease.handOff().',
    )
}

function isDuration(value: unknown, least: number): boolean {
  return isWithin(value, { least, most: yearMs })
}

/** The held lease that a proof stands for. */
export interface Verified {
  readonly fence: number
  readonly remainingMs: number
}

/**
 * Asks the store whether a proof, `lease.toJSON()`, stands for a lease on `scope` now. Checks in this order: found
 * (NOT_HELD), unexpired (LOST), scope covered (SCOPE_MISMATCH; a range inside the held range passes).
 * @internal
 */
export async function verifyProof(client: Client, proof: LeaseProof, scope: Scope): Promise<Verified> {
  checkProof(proof)
  const name = JSON.stringify(describeScope(scope))
  const page = await client.driver.list({ key: proof.key, known: proof.id })
  const claim = page.keys[0]?.claims.find((listed) => listed.state === 'held' && sameSecret(listed.id, proof.id))
  if (claim === undefined || claim.fence !== proof.fence) {
    throw new LeaseholdError('NOT_HELD', `Fence ${proof.fence} is not held. Refuse the request that came with it.`, {
      fence: proof.fence,
    })
  }
  const remainingMs = Math.min(claim.expiresAt - page.now, claim.ttlMs)
  // Also true for NaN: a store that does not say when the lease ends does not confirm that it is held.
  if (!(remainingMs > 0)) {
    throw new LeaseholdError('LOST', `The lease with fence ${proof.fence} has expired. Refuse the request.`, {
      fence: proof.fence,
    })
  }
  const place = splitStoreKey(proof.key)
  const held = { key: place?.scopeKey ?? '', ...(claim.range !== undefined && { range: claim.range }) }
  if (place?.namespace !== client.namespace || !covers(held, scope)) {
    throw new LeaseholdError('SCOPE_MISMATCH', `The lease with fence ${proof.fence} is not for ${name}.`, {
      fence: proof.fence,
    })
  }
  return { fence: claim.fence, remainingMs: Math.floor(remainingMs) }
}

/** Whether two secrets are equal. The time it takes does not depend on where they differ. */
function sameSecret(left: string, right: string): boolean {
  if (left.length !== right.length) return false
  let difference = 0
  for (let place = 0; place < left.length; place += 1) difference |= left.charCodeAt(place) ^ right.charCodeAt(place)
  return difference === 0
}
