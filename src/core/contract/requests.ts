import type { Claim, Request } from './driver.ts'

/** The shortest send timeout: less is not enough for a round trip. */
const leastMs = 50
/** Renewals of leases at least this long are not urgent: a third of it is the default send timeout of stores. */
const relaxedTtlMs = 15_000

/**
 * How urgent a request is. 0: it may take about as long as the send timeout. Renewals of short leases are urgent: a lost
 * reply must leave time for another renewal before the lease ends. Leases of one urgency differ by at most a factor of two.
 */
export function urgencyOf(request: Request): number {
  if (request.op !== 'renew' || request.ttlMs >= relaxedTtlMs) return 0
  return Math.ceil(Math.log2(relaxedTtlMs / Math.max(1, request.ttlMs)))
}

/**
 * The timeout of one `send`, at most `sendTimeoutMs`: a lost reply must leave time to renew before the lease ends. Urgent
 * renewals shorten it only if all requests are urgent: the batcher sends them in batches of their own.
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

/** The key that a request is about. */
export function keyOf(request: Request): string {
  return request.op === 'claim' ? request.claim.key : request.key
}

/** The id of the claim that a request is about; undefined for an eviction, which names a fence. */
export function claimIdOf(request: Request): string | undefined {
  if (request.op === 'claim') return request.claim.id
  return request.op === 'evict' ? undefined : request.id
}

/** A text that is unique for each claim: the same id may be used for another key. */
export function claimName({ key, id }: Pick<Claim, 'key' | 'id'>): string {
  return `${id.length} ${id}${key}`
}
