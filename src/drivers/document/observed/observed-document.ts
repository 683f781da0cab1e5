import type { ClaimRecord, Ended } from '../../../core/rule/claim-record.ts'

/**
 * A claim as it is stored where no clock can be asked: the length of its lease, never its end. `enteredAt`, `acquiredAt` and
 * `lastHeartbeat` are wall clocks of those who wrote, for people to read.
 */
export type StoredLease = Omit<ClaimRecord, 'expiresAt' | 'died'> & {
  /** Names the write that began the lease anew. An observer counts the lease from when it first saw this beat. */
  readonly beat: string
  /** The driver that made or renewed the claim last, where the store can notify it. */
  readonly channel?: string | undefined
}

/** An unclean end, with how long to remember it. */
export type StoredEnd = Omit<Ended, 'until'> & { readonly keepMs: number }

/** A key's claims as one JSON document without times. */
export interface ObservedDocument {
  readonly version: number
  readonly lastFence: number
  readonly ended?: StoredEnd | undefined
  readonly claims: readonly StoredLease[]
  /** Different in every document, so that a hash of the content can be its revision. */
  readonly nonce: string
}

/**
 * How long this document may be in a store that takes `bytesMax`. One that a claim has just entered leaves room for what grows as claims
 * renew and are granted: who is in must not be kept from that by who comes. @internal
 */
export function documentBytesMaxOf({ claims, nonce }: ObservedDocument, bytesMax: number): number {
  const hasEntered = claims.some(({ beat, renewalCount, enteredAt, lastHeartbeat }) => {
    return beat === nonce && renewalCount === 0 && enteredAt === lastHeartbeat
  })
  return hasEntered ? bytesMax * 0.875 : bytesMax
}
