import type { Request } from '../../core/contract/driver.ts'
import { keyOf } from '../../core/contract/requests.ts'
import type { LeaseholdError } from '../../core/errors.ts'
import { fenceFloor } from '../../core/rule/fence.ts'
import { splitStoreKey } from '../../core/contract/scope.ts'
import type { Principal, Right } from '../contract/call.ts'
import { forbidden, notAllowed } from '../contract/http-error.ts'

/** No clock of a quorum is that far ahead of ours. */
const fencesAheadMaxMs = 3_600_000

/** The namespace of a key: what stands before its first '/'. Empty, and so covered by '*' alone, if there is none. */
export function namespaceOf(key: string): string {
  return splitStoreKey(key)?.namespace ?? ''
}

/** What a token lacks for a request; undefined if it may. `wallMs` is our wall clock. */
export function lackFor(request: Request, principal: Principal, wallMs: number): LeaseholdError | undefined {
  const namespace = namespaceOf(keyOf(request))
  if (!principal.covers(namespace)) return notAllowed(foreignNamespace(principal, namespace))
  const missing = rightsFor(request).find((right) => !principal.rights.has(right))
  if (missing === undefined)
    return liftsForAll(request, wallMs) && !principal.covers('') ? tooHigh(principal) : undefined
  return notAllowed(`The token ${JSON.stringify(principal.name)} lacks the right '${missing}'.`)
}

/** Refuses to list what is not inside a namespace of the token. */
export function checkListing(place: string | undefined, principal: Principal): void {
  const namespace = splitStoreKey(place ?? '')?.namespace
  if (namespace === undefined ? principal.covers('') : principal.covers(namespace)) return
  if (namespace !== undefined) throw forbidden(foreignNamespace(principal, namespace))
  throw forbidden(
    `The token ${JSON.stringify(principal.name)} is for some namespaces only. List with a key, or a prefix 'NAMESPACE/'.`,
  )
}

/**
 * Stores count the fences of many keys together. What lifts them past the clock lifts those of other namespaces too, and
 * a store that is emptied goes on from the clock.
 */
function liftsForAll(request: Request, wallMs: number): boolean {
  return request.op === 'renew' && (request.fenceFloor ?? 0) > fenceFloor(wallMs + fencesAheadMaxMs)
}

/** To claim by force is to evict, too. */
function rightsFor(request: Request): readonly Right[] {
  if (request.op === 'evict') return ['evict']
  return request.op === 'claim' && request.claim.evict === 'all' ? ['lock', 'evict'] : ['lock']
}

function foreignNamespace({ name }: Principal, namespace: string): string {
  return `The token ${JSON.stringify(name)} is not for the namespace ${JSON.stringify(namespace)}.`
}

function tooHigh({ name }: Principal): LeaseholdError {
  const message = `The token ${JSON.stringify(name)} is for some namespaces only, and lifts no fences past the clock.`
  return notAllowed(`${message} Do the clocks agree?`)
}
