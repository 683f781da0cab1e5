import type { Claim, ClaimStatus } from '../../core/contract/driver.ts'
import { clientClosed, LeaseholdError, plainMessageOf } from '../../core/errors.ts'
import { jitterOf } from '../../core/client/claim-step.ts'
import { claimant } from '../client/runner.ts'
import { splitStoreKey } from '../../core/contract/scope.ts'
import { ClaimRuntime } from '../../core/client/claim-runtime.ts'
import type { Client } from '../client/client.ts'
import { LeaseHandle } from './lease-handle.ts'
import { askedToLeave, beingPassedOn } from './lease-errors.ts'
import { checkTtl } from './lease-limits.ts'
import { unsupported, type Terms } from '../options.ts'
import { checkProof, type LeaseProof } from './proof.ts'
import { unanswered } from '../client/refusal.ts'

/** Detaches a lease from its process and stops caring for it. It ends `ttlMs` from now unless somebody resumes it. */
export function handOff(client: Client, lease: LeaseHandle, ttlMs: number): Promise<LeaseProof> {
  return new Promise((resolve, reject) => {
    client.refuseIfClosed()
    refuseWhereClaimsEndWithUs(client)
    lease.refuseUnlessHeld()
    // A conversion would take the lock from whoever resumes it.
    if (lease.passing !== undefined) throw beingPassedOn(lease, lease.passing)
    lease.passing = 'handed-off'
    const { heartbeating } = lease
    // Nobody else must renew from here on; a request under way is answered before this one is sent.
    lease.stopHeartbeat()
    // What is being asked for may be less than the lease is trusted for, if that has not been asked for yet. At the end of a run of
    // `once` it always is: nobody trusts that lease any more.
    const isTrusted = lease.terms.detached !== true
    if (isTrusted) lease.claimRuntime.askElsewhere(ttlMs)
    renewDetached(client, lease.key, lease.claim.id, ttlMs, (status, sentAt) => {
      lease.passing = undefined
      if (status.state === 'held' && status.leaving === undefined && lease.held) {
        const { inFlight } = lease.claimRuntime.state
        lease.passOn('handed-off')
        if (isTrusted) lease.claimRuntime.settledElsewhere(ttlMs)
        return resolve(proofAfter(lease, ttlMs, inFlight))
      }
      lease.claimRuntime.renewedElsewhere(status, sentAt, ttlMs)
      if (isTrusted) lease.claimRuntime.settledElsewhere(ttlMs)
      // Lost or released meanwhile: its owner was told, and what was not answered since is not known.
      if (!lease.held) return reject(lease.loss ?? notHeld(lease))
      try {
        if (heartbeating) lease.startHeartbeat()
      } catch (error) {
        // Lost since it was looked at: nothing may be thrown at whoever brings answers.
        return reject(error)
      }
      if (status.state === 'held') return reject(askedToLeave(lease, status.leaving ?? ''))
      reject(unavailable('hand the lease off', status))
    })
  })
}

/** A renewal that was sent since may arrive after one of whoever resumes the lease: what it asks for is not answered yet. */
function proofAfter(lease: LeaseHandle, ttlMs: number, isRenewing: boolean): LeaseProof {
  const proof = { ...lease.toJSON(), ttlMs }
  return isRenewing ? { ...proof, doubtMs: Math.min(proof.doubtMs ?? Infinity, lease.claimRuntime.state.ttlMs) } : proof
}

function refuseWhereClaimsEndWithUs({ driver }: Client): void {
  if (driver.supports.lifetime === 'connection') throw unsupported('handing leases off: they end with the connection')
}

/** Takes a lease over that another process handed off. It is renewed by this one from now on. */
export function resume(client: Client, proof: LeaseProof, terms: Terms): Promise<LeaseHandle> {
  return new Promise((resolve, reject) => {
    checkProof(proof)
    refuseWhereClaimsEndWithUs(client)
    checkTtl(terms.ttlMs, proof.graceMs ?? 0, client.driver.supports)
    const place = splitStoreKey(proof.key)
    if (place?.namespace !== client.namespace) {
      throw new LeaseholdError('SCOPE_MISMATCH', `The lease with fence ${proof.fence} is of another namespace.`)
    }
    const { key, id } = proof
    refuseSecondUse(client, proof)
    // Before anything is sent: bad metadata throws.
    const claim = claimOf(client, proof, terms)
    client.resuming.add(id)
    renewDetached(client, key, id, terms.ttlMs, (status, sentAt, at) => {
      client.resuming.delete(id)
      // Nobody would renew it here. It lives by its ttl, for whoever else has the proof.
      if (client.closed) return reject(clientClosed())
      // A try that was not answered may be carried out yet, after the one that is.
      const doubtMs = Math.min(proof.doubtMs ?? Infinity, client.unansweredResumes.get(id) ?? Infinity)
      if (status.state === 'unknown') {
        client.unansweredResumes.set(id, Math.min(doubtMs, terms.ttlMs))
        return reject(unavailable('resume the lease', status))
      }
      client.unansweredResumes.delete(id)
      if (status.state !== 'held' || status.fence !== proof.fence) return reject(notHeld(proof))
      const renewalPolicy = {
        heartbeatMs: client.ownHeartbeatMs(terms.heartbeatMs, terms.ttlMs),
        polling: undefined,
        jitter: jitterOf(client.environment.random()),
        doubtMs: doubtMs === Infinity ? undefined : doubtMs,
      }
      const claimRuntime = ClaimRuntime.resume(client.runtime, claim, renewalPolicy, status, sentAt, at)
      if (claimRuntime === undefined) return reject(notHeld(proof))
      const lease = new LeaseHandle(
        client,
        claimRuntime,
        { ...terms, graceMs: graceOf(proof, terms) },
        status.fence,
        at,
      )
      client.emit('acquired', lease, { waitMs: Math.round(at - sentAt), attempts: 1 })
      const { leaving } = status
      if (leaving !== undefined) client.emit('leaving', lease, { reason: leaving, remainingMs: lease.remainingMs })
      resolve(lease)
    })
  })
}

/** A client can tell when it has the lease, or is about to. Two clients cannot. */
function refuseSecondUse({ runtime, resuming }: Client, proof: LeaseProof): void {
  const phase = runtime.claimRuntimes.get(proof.id)?.state.phase
  if (phase === undefined && !resuming.has(proof.id)) return
  if (phase === 'releasing') throw notHeld(proof)
  const message = `This client has the lease with fence ${proof.fence} already. A proof is for one who resumes it.`
  throw new LeaseholdError('INVALID', message, { fence: proof.fence })
}

type Answered = (status: ClaimStatus, sentAt: number, at: number) => void

/** Every renewal of a lease that changes hands says so: no process's end may be taken for the lease's. */
function renewDetached(client: Client, key: string, id: string, ttlMs: number, answered: Answered): void {
  client.runtime.batcher.submit(
    { op: 'renew', key, id, ttlMs, detached: true },
    { answered: (_request, status, sentAt, at) => answered(status, sentAt, at) },
  )
}

/** The claim as far as the one who resumes it must know it. */
function claimOf(client: Client, proof: LeaseProof, terms: Terms): Claim {
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
    graceMs: graceOf(proof, terms),
    detached: true,
    runner: claimant(client.runner, terms.owner, terms.metadata),
  }
}

/** The store keeps the grace that the claim was made with. */
function graceOf(proof: LeaseProof, terms: Terms): number {
  return proof.graceMs ?? terms.graceMs
}

function notHeld({ fence }: Pick<LeaseProof, 'fence'>): LeaseholdError {
  return new LeaseholdError('NOT_HELD', `The lease with fence ${fence} is over. Acquire the lock instead.`, { fence })
}

function unavailable(what: string, status: ClaimStatus): LeaseholdError {
  const cause = status.state === 'unknown' ? status.error : undefined
  return new LeaseholdError('UNAVAILABLE', `The store could not ${what}: ${plainMessageOf(cause)}`, unanswered(cause))
}
