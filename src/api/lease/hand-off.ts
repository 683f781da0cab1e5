import { unsupported, plainMessageOf, LeaseholdError } from '../../core/errors.ts'
import type { ClaimStatus } from '../../core/contract/driver.ts'
import { unanswered } from '../client/acquire-error.ts'
import type { Client } from '../client/client.ts'
import { askedToLeave, beingPassedOn } from './lease-errors.ts'
import type { LeaseHandle } from './lease-handle.ts'
import type { LeaseProof } from './proof.ts'

/** Detaches a lease from its process and stops renewing it. The lease ends `ttlMs` from now unless a process resumes it. */
export function handOff(lease: LeaseHandle, ttlMs: number): Promise<LeaseProof> {
  return new Promise((resolve, reject) => {
    const { client, claimRuntime, heartbeating } = lease
    client.refuseIfClosed()
    refuseConnectionLifetime(client)
    lease.refuseUnlessHeld()
    // A conversion would take the lock from the process that resumes it.
    if (lease.passing !== undefined) throw beingPassedOn(lease, lease.passing)
    lease.passing = 'handed-off'
    // No other renewal must go out from here on; a request under way is answered before this one is sent.
    lease.stopHeartbeat()
    // `ttlMs` may be less than the lease is trusted for, until the store has answered. Not so at the end of a run of `once`:
    // that lease is no longer trusted by anybody.
    const isTrusted = lease.terms.detached !== true
    if (isTrusted) claimRuntime.askElsewhere(ttlMs)
    renewDetached(client, { key: lease.key, id: lease.claim.id, ttlMs }, (status, sentAt) => {
      lease.passing = undefined
      if (status.state === 'held' && status.leaving === undefined && lease.held) {
        const { inFlight } = claimRuntime.state
        lease.passOn('handed-off')
        if (isTrusted) claimRuntime.settledElsewhere(ttlMs)
        return resolve(proofAfter(lease, ttlMs, inFlight))
      }
      claimRuntime.renewedElsewhere(status, sentAt, ttlMs)
      if (isTrusted) claimRuntime.settledElsewhere(ttlMs)
      // Lost or released meanwhile: the owner has been told, and the store's answer adds nothing.
      if (!lease.held) return reject(lease.loss ?? handedOffOver(lease))
      try {
        if (heartbeating) lease.startHeartbeat()
      } catch (error) {
        // The lease was lost since `held` was read: the batcher, which calls this, must not get the error.
        return reject(error)
      }
      if (status.state === 'held') return reject(askedToLeave(lease, status.leaving ?? ''))
      reject(storeCouldNot('hand the lease off', status))
    })
  })
}

/** A renewal that was sent since may arrive after a renewal by the process that resumes: until answered, it bounds the trust. */
function proofAfter(lease: LeaseHandle, ttlMs: number, isRenewing: boolean): LeaseProof {
  const proof = { ...lease.toJSON(), ttlMs }
  return isRenewing ? { ...proof, doubtMs: Math.min(proof.doubtMs ?? Infinity, lease.claimRuntime.state.ttlMs) } : proof
}

/** Throws UNSUPPORTED where claims end with the connection: no other process could resume them. */
export function refuseConnectionLifetime({ driver }: Client): void {
  if (driver.supports.lifetime === 'connection') throw unsupported('handing leases off: they end with the connection')
}

/** The answer to a detached renewal. */
export type OnRenewed = (status: ClaimStatus, sentAt: number, at: number) => void

/** Renews a lease that changes hands. The renewal detaches the claim: the end of no process may be taken for the end of the lease. */
export function renewDetached(
  client: Client,
  renewal: { readonly key: string; readonly id: string; readonly ttlMs: number },
  onRenewed: OnRenewed,
): void {
  client.batcher.submit(
    { op: 'renew', ...renewal, detached: true },
    { answered: (_request, status, sentAt, at) => onRenewed(status, sentAt, at) },
  )
}

/** The error for a lease that changed hands and has ended. */
export function handedOffOver({ fence }: Pick<LeaseProof, 'fence'>): LeaseholdError {
  return new LeaseholdError('NOT_HELD', `The lease with fence ${fence} is over. Acquire the lock instead.`, { fence })
}

/** The error for a store that did not answer a detached renewal. `task` completes "The store could not …". */
export function storeCouldNot(task: string, status: ClaimStatus): LeaseholdError {
  const cause = status.state === 'unknown' ? status.error : undefined
  return new LeaseholdError('UNAVAILABLE', `The store could not ${task}: ${plainMessageOf(cause)}`, unanswered(cause))
}
