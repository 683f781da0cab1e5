/** By how much the clocks of store and holder may drift apart, as a part of the ttl. */
const driftRate = 0.05
/** What both sides may lose by rounding to whole milliseconds. */
const roundingMs = 2

/**
 * Until when a holder may trust a lease: counted from before the request was sent, as the store began to count later, and
 * shortened by the drift of two clocks, so that the holder stops before the store does. In whole milliseconds, rounded
 * down, as a claim state keeps them.
 */
export function trustedUntil(sentAt: number, ttlMs: number): number {
  return Math.floor(sentAt + ttlMs - Math.min(ttlMs * driftRate + roundingMs, ttlMs / 2))
}
