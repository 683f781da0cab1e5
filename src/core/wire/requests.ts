/** What clients ask of a Leasehold server, described once: the server checks by it, and the OpenAPI document is written from it. */
import { requestBounds } from '../contract/bounds.ts'
import type { Claim, EvictRule, Request } from '../contract/driver.ts'
import { storeKeyFault } from '../contract/scope.ts'
import { mode, range, runner } from './replies.ts'
import { choice, flag, list, object, optional, refined, string, variants, integer, type Schema } from './schema.ts'

const { keyBytesMax, idBytesMax, reasonBytesMax, positive, permits, priority, fenceFloor } = requestBounds

/** Durations: how long they may be is left to the store's limits, which name the longest that it takes. */
export const duration = integer()
export const positiveDuration = integer(positive)

const id = string(idBytesMax)
const key = string(keyBytesMax)
/** Keys enter a store by claims. Other requests find what is there, and must reach also what got there in another way. */
const claimedKey = refined(key, storeKeyFault)

const claim: Schema<Claim> = object<Claim>({
  key: claimedKey,
  id,
  mode,
  limit: optional(integer(permits)),
  range: optional(refined(range, ({ start, end }) => (start < end ? undefined : 'must end after its start'))),
  replaces: optional(id),
  priority: integer(priority),
  wait: flag,
  evict: optional(choice<EvictRule>('stale', 'lower-priority', 'same-runner', 'all')),
  staleMs: optional(duration),
  ttlMs: positiveDuration,
  graceMs: duration,
  maxHoldMs: optional(positiveDuration),
  detached: optional(flag),
  runner,
})

/** One request of a call. */
export const request: Schema<Request> = variants<'op', Request>('op', {
  claim: { claim },
  renew: { key, id, ttlMs: positiveDuration, fenceFloor: optional(integer(fenceFloor)), detached: optional(flag) },
  release: { key, id },
  withdraw: { key, id },
  evict: { key, fence: integer(), reason: string(reasonBytesMax, 0) },
})

/** The body of `POST /v1/requests`. */
export function callBody(requestsMax: number): Schema<{ readonly requests: readonly Request[] }> {
  return object<{ readonly requests: readonly Request[] }>({ requests: list(request, requestsMax) })
}
