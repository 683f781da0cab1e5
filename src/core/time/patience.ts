import type { Request } from '../driver.ts'

/** Less is not enough for a round trip. */
const leastMs = 50

/** How long a `send` may take that may take `patienceMs`: a lost reply must leave time to renew before the lease ends. */
export function patienceFor(requests: readonly Request[], patienceMs: number): number {
  let withinMs = patienceMs
  for (const request of requests) if (request.op === 'renew') withinMs = Math.min(withinMs, request.ttlMs / 3)
  return Math.max(leastMs, withinMs)
}
