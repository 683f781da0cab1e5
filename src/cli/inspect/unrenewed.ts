import type { ClaimInfo } from '../../index.ts'

/** Clients renew three times a ttl. More than two renewals missed: the holder is dead, cut off, or not renewed by itself. */
const silentShare = 0.7

/** Whether a lease has not been renewed for most of its ttl. */
export function isUnrenewed({
  remainingMs,
  ttlMs,
  expired,
}: Pick<ClaimInfo, 'remainingMs' | 'ttlMs' | 'expired'>): boolean {
  return expired || remainingMs < ttlMs * (1 - silentShare)
}
