import { ClaimRuntime } from '../../core/client/claim-runtime.ts'
import type { Claim } from '../../core/contract/driver.ts'
import { splitStoreKey } from '../../core/contract/scope.ts'
import { clientClosed, LeaseholdError } from '../../core/errors.ts'
import type { Client } from '../client/client.ts'
import { claimant } from '../client/runner.ts'
import type { AcquireTerms } from '../options.ts'
import { handedOffOver, refuseConnectionLifetime, renewDetached, storeCouldNot } from './hand-off.ts'
import { LeaseHandle } from './lease-handle.ts'
import { checkTtl } from './lease-limits.ts'
import { checkProof, type LeaseProof } from './proof.ts'

/** Resumes a lease that another process handed off. This process renews it from now on. */
export function resume(client: Client, proof: LeaseProof, terms: AcquireTerms): Promise<LeaseHandle> {
  return new Promise((resolve, reject) => {
    checkProof(proof)
    refuseConnectionLifetime(client)
    checkTtl(terms.ttlMs, proof.graceMs ?? 0, client.driver.supports)
    if (splitStoreKey(proof.key)?.namespace !== client.namespace) {
      throw new LeaseholdError('SCOPE_MISMATCH', `The lease with fence ${proof.fence} is of another namespace.`)
    }
    const { key, id } = proof
    refuseSecondUse(client, proof)
    // Before anything is sent: bad metadata throws.
    const claim = claimOf(client, proof, terms)
    client.resuming.add(id)
    renewDetached(client, { key, id, ttlMs: terms.ttlMs }, (status, sentAt, at) => {
      client.resuming.delete(id)
      // A closed client does not renew. The lease lives by its ttl, for any other process that has the proof.
      if (client.closed) return reject(clientClosed())
      // An earlier resume that was not answered may be carried out yet, after this one.
      const doubtMs = Math.min(proof.doubtMs ?? Infinity, client.unansweredResumes.get(id) ?? Infinity)
      if (status.state === 'unknown') {
        client.unansweredResumes.set(id, Math.min(doubtMs, terms.ttlMs))
        return reject(storeCouldNot('resume the lease', status))
      }
      client.unansweredResumes.delete(id)
      if (status.state !== 'held' || status.fence !== proof.fence) return reject(handedOffOver(proof))
      const policy = client.renewalPolicy(terms)
      const bound = doubtMs === Infinity ? undefined : doubtMs
      const claimRuntime = ClaimRuntime.resume(client, claim, policy, bound, { status, sentAt, at })
      if (claimRuntime === undefined) return reject(handedOffOver(proof))
      const { fence, leaving } = status
      const lease = new LeaseHandle(claimRuntime, { ...terms, graceMs: claim.graceMs }, { fence, at })
      client.emit('acquired', lease, { waitMs: Math.round(at - sentAt), attempts: 1 })
      if (leaving !== undefined) client.emit('leaving', lease, { reason: leaving, remainingMs: lease.remainingMs })
      resolve(lease)
    })
  })
}

/** Throws if this client has the lease, or is about to. Two clients cannot tell. */
function refuseSecondUse({ claimRuntimes, resuming }: Client, proof: LeaseProof): void {
  const phase = claimRuntimes.get(proof.id)?.state.phase
  if (phase === undefined && !resuming.has(proof.id)) return
  if (phase === 'releasing') throw handedOffOver(proof)
  const message = `This client has the lease with fence ${proof.fence} already. A proof can be resumed once.`
  throw new LeaseholdError('INVALID', message, { fence: proof.fence })
}

/** The claim, as far as the process that resumes it must know it. */
function claimOf(client: Client, proof: LeaseProof, terms: AcquireTerms): Claim {
  const { key, id, mode = 'exclusive', limit, range } = proof
  return {
    id,
    key,
    mode,
    limit,
    range,
    priority: terms.priority,
    wait: false,
    ttlMs: terms.ttlMs,
    // The store keeps the grace that the claim was made with.
    graceMs: proof.graceMs ?? terms.graceMs,
    detached: true,
    runner: claimant(client.runner, terms.owner, terms.metadata),
  }
}
