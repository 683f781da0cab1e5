import type { Claim, Request } from './driver.ts'

/** Less is not enough for a round trip. */
const leastMs = 50
/** Renewals of leases at least this long are in no hurry: a third of it is what stores bear with by default. */
const relaxedTtlMs = 15_000

/**
 * How urgent a request is. 0: it may take as long as the store's patience, or nearly. Renewals of short leases are urgent: a lost reply
 * must leave time for another before the lease ends. Leases of one urgency differ by a factor of two at most.
 */
export function urgencyOf(request: Request): number {
  if (request.op !== 'renew' || request.ttlMs >= relaxedTtlMs) return 0
  return Math.ceil(Math.log2(relaxedTtlMs / Math.max(1, request.ttlMs)))
}

/**
 * How long a `send` may take that may take `sendTimeoutMs`: a lost reply must leave time to renew before the lease ends. An urgent renewal
 * hurries only others of its kind, never requests that share its batch: the batcher sends urgent ones apart.
 */
export function sendTimeoutFor(requests: readonly Request[], sendTimeoutMs: number): number {
  let relaxedMs = sendTimeoutMs
  let urgentMs = 0
  let areAllUrgent = true
  for (const request of requests) {
    const isUrgent = urgencyOf(request) > 0
    areAllUrgent &&= isUrgent
    if (request.op !== 'renew') continue
    if (isUrgent) urgentMs = Math.max(urgentMs, request.ttlMs / 3)
    else relaxedMs = Math.min(relaxedMs, request.ttlMs / 3)
  }
  return Math.max(leastMs, areAllUrgent ? Math.min(sendTimeoutMs, urgentMs) : relaxedMs)
}

export function keyOf(request: Request): string {
  return request.op === 'claim' ? request.claim.key : request.key
}

/** The id of the claim that a request is about; undefined for an eviction, which names a fence. */
export function claimIdOf(request: Request): string | undefined {
  if (request.op === 'claim') return request.claim.id
  return request.op === 'evict' ? undefined : request.id
}

/** One text for a claim: an id alone may be somebody's for another key. No two claims have the same, whatever their texts hold. */
export function claimName({ key, id }: Pick<Claim, 'key' | 'id'>): string {
  return `${id.length} ${id}${key}`
}
