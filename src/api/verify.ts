import { LeaseholdError } from '../core/errors.ts'
import { covers, describeScope, splitStoreKey, type Scope } from '../core/scope.ts'
import type { Client } from './client.ts'
import { checkProof, type LeaseProof } from './proof.ts'

/** What the store says of a proof that holds. */
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
  // Also for what is no number: a store that does not say when the lease ends does not say that it is held.
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

/** Whether two secrets are the same, in a time that says nothing of where they differ. */
function sameSecret(one: string, other: string): boolean {
  if (one.length !== other.length) return false
  let difference = 0
  for (let place = 0; place < one.length; place += 1) difference |= one.charCodeAt(place) ^ other.charCodeAt(place)
  return difference === 0
}
