import { excludes, overlaps } from '../../core/rule/conflict.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { isOwn } from '../../core/contract/owner-name.ts'
import { covers, describeScope, storeKey, type Scope } from '../../core/contract/scope.ts'
import type { Sharing } from '../client/acquisition.ts'
import type { Client } from '../client/client.ts'
import type { LeaseHandle } from '../lease/lease-handle.ts'
import { beingPassedOn } from '../lease/lease-errors.ts'
import type { AcquireTerms } from '../options.ts'
import { linesOf, origin } from './origin.ts'

/** With `reentrant`: the lease that this owner already holds on the scope, entered once more. */
export function enterAgain(
  client: Client,
  scope: Scope,
  sharing: Sharing,
  terms: AcquireTerms,
): LeaseHandle | undefined {
  if (!terms.reentrant || terms.owner === undefined) return undefined
  for (const lease of client.owners.of(terms.owner)) {
    const { mode, limit } = lease.claim
    const suffices = mode === 'exclusive' || (sharing.mode === 'shared' && limit === sharing.limit)
    if (!suffices || !covers(lease.scope, scope) || !lease.held) continue
    // The lease is being converted or handed off. A caller that entered it now would release the lease that replaces it.
    if (lease.passing !== undefined) throw beingPassedOn(lease, lease.passing)
    return lease.enter()
  }
  return undefined
}

/** The terms of an owner's claim. With `traceOwners` they keep the place of the call, for the error of an owner that would wait for itself. */
export function termsForOwner(client: Client, terms: AcquireTerms, owner: string): AcquireTerms {
  return client.tracesOwners ? { ...terms, owner, origin: origin() } : { ...terms, owner }
}

/** The DEADLOCK error if this owner would wait for a lock it holds itself. The error says where that lock was acquired. */
export function ownDeadlock(
  client: Client,
  scope: Scope,
  sharing: Sharing,
  terms: AcquireTerms,
): LeaseholdError | undefined {
  // These strategies evict the holder, also if the owner holds the lock itself.
  if (terms.owner === undefined || terms.evict === 'all' || terms.evict === 'same-runner') return undefined
  const wanted = { ...sharing, range: scope.range }
  let permits = 0
  for (const lease of client.owners.of(terms.owner)) {
    const isSame = lease.scope.key === scope.key && overlaps(lease.claim, wanted)
    if (!isSame || !isOwn(terms.owner, lease.runner.owner) || !lease.held) continue
    permits += 1
    if (excludes(lease.claim, wanted) || permits >= (sharing.limit ?? Infinity)) return selfWait(client, scope, lease)
  }
  return undefined
}

function selfWait(client: Client, scope: Scope, lease: LeaseHandle): LeaseholdError {
  const name = JSON.stringify(describeScope(scope))
  const lines = linesOf(lease.terms.origin ?? {})
  const where = lines[0] === undefined ? '' : ` It was acquired ${lines[0]}.`
  const cause = new Error(`${name} was acquired here`)
  cause.stack = [`Error: ${cause.message}`, ...lines.map((line) => `    ${line}`)].join('\n')
  const advice = 'Pass reentrant: true, upgrade the lease, or release it first.'
  return new LeaseholdError('DEADLOCK', `This owner holds ${name} itself, and would wait for ever.${where} ${advice}`, {
    scope: describeScope(scope),
    key: storeKey(client.namespace, scope.key),
    fence: lease.fence,
    cause,
  })
}
