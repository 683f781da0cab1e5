/** How much faster than the store's clock the holder's may run: both drift, and margins are cheap. */
const driftRate = 0.05
/** For rounding to whole milliseconds on both sides. */
const roundingMs = 2

/**
 * Until when a holder may trust a lease: counted from before the request was sent, since the store's own count began
 * later, and shortened by what two clocks may drift apart. The holder stops first. In whole milliseconds, as `life.ts`
 * keeps them: rounded down, it stops a little earlier.
 */
export function trustedUntil(sentAt: number, ttlMs: number): number {
  return Math.floor(sentAt + ttlMs - Math.min(ttlMs * driftRate + roundingMs, ttlMs / 2))
}
