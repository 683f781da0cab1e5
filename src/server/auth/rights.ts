import type { EvictRule, Request } from '../../core/contract/driver.ts'
import { keyOf } from '../../core/contract/requests.ts'
import type { LeaseholdError } from '../../core/errors.ts'
import { fenceFloor } from '../../core/rule/fence.ts'
import { splitStoreKey } from '../../core/contract/scope.ts'
import type { Principal, Right } from '../contract/call.ts'
import { forbidden, notAllowed } from '../contract/http-error.ts'

/**
 * How far the clocks of a quorum's servers may be apart. A fence that lies ahead of our clock by that much at most is lifted
 * when our clock has reached it; one further ahead only by an administrator.
 */
export const fencesAheadMaxMs = 5000

/** The namespace of a key: what stands before its first '/'. Empty, and so covered by '*' alone, if there is none. */
export function namespaceOf(key: string): string {
  return splitStoreKey(key)?.namespace ?? ''
}

/** What a token lacks for a request; undefined if it may. `wallMs` is our wall clock. */
export function lackFor(request: Request, principal: Principal, wallMs: number): LeaseholdError | undefined {
  const key = keyOf(request)
  const namespace = namespaceOf(key)
  if (!principal.covers(namespace)) return notAllowed(foreignNamespace(principal, namespace))
  const missing = rightsFor(request).find((right) => !principal.may(right, key))
  if (missing !== undefined) return notAllowed(lacks(principal, missing, key))
  return aheadMs(request, principal, wallMs) > fencesAheadMaxMs ? tooHigh(principal) : undefined
}

/**
 * For how long a request has to wait until our clock has reached its fence. Stores count the fences of many keys together:
 * what lifts them past the clock lifts those of others too, and a store that is emptied goes on from the clock.
 */
export function aheadMs(request: Request, principal: Principal, wallMs: number): number {
  if (request.op !== 'renew' || request.fenceFloor === undefined) return 0
  if (principal.may('admin', request.key)) return 0
  return Math.max(0, Math.ceil((request.fenceFloor - fenceFloor(wallMs)) / fencesPerMs))
}

/** Fences are microseconds. */
const fencesPerMs = 1000

/** By which rule a claim may take the place of a live holder; undefined if it waits its turn. */
export function forcedBy(request: Request): EvictRule | undefined {
  return request.op === 'claim' ? request.claim.evict : undefined
}

/** Refuses to list what the token may not read. */
export function checkListing(place: string | undefined, principal: Principal): void {
  if (principal.may('read', place ?? '')) return
  const namespace = splitStoreKey(place ?? '')?.namespace
  const name = JSON.stringify(principal.name)
  if (namespace === undefined) {
    throw forbidden(`The token ${name} is for some namespaces only. List with a key, or a prefix 'NAMESPACE/'.`)
  }
  if (!principal.covers(namespace)) throw forbidden(foreignNamespace(principal, namespace))
  throw forbidden(`The token ${name} is for some keys of the namespace only. List with a prefix that it covers.`)
}

/** Whatever takes the place of a live holder is an eviction, too: what a claim says of itself proves nothing. */
function rightsFor(request: Request): readonly Right[] {
  if (request.op === 'evict') return ['evict']
  return forcedBy(request) === undefined ? ['lock'] : ['lock', 'evict']
}

function lacks({ name, rights }: Principal, missing: Right, key: string): string {
  const where = rights.has(missing) ? ` for ${JSON.stringify(key)}` : ''
  return `The token ${JSON.stringify(name)} lacks the right '${missing}'${where}.`
}

function foreignNamespace({ name }: Principal, namespace: string): string {
  return `The token ${JSON.stringify(name)} is not for the namespace ${JSON.stringify(namespace)}.`
}

function tooHigh({ name }: Principal): LeaseholdError {
  const message = `The token ${JSON.stringify(name)} lacks the right 'admin', and lifts no fences past the clock.`
  return notAllowed(`${message} Do the clocks agree?`)
}
