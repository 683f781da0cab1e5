import type { ClaimRecord, Ended } from '../claim-record.ts'
import type { ClaimStatus } from '../driver.ts'

/** A key's claims, read only as far as the rule needs: a release must not decode ten thousand waiters. @internal */
export interface KeyView {
  /** The last fence minted here; 0 if none is known. */
  readonly lastFence: number
  /**
   * The least the next fence may be: the store's wall clock in microseconds, at every grant. `lastFence` may have been lost, or
   * come from an older copy that was restored.
   */
  readonly fenceFloor: number
  readonly ended: Ended | undefined
  /** In the order of their grants. */
  holders(): readonly ClaimRecord[]
  /** In the order of `compareRank`. */
  waiters(): Iterable<ClaimRecord>
  find(id: string): ClaimRecord | undefined
  /** How many stored waiters rank before this record, which may itself not be stored yet. */
  ahead(record: ClaimRecord): number
  /** A number above the `order` of every claim this key has had since it was last empty. */
  nextOrder(): number
}

/** One step to carry out in the store. A record without `before` is new; without `after` it is removed. */
export interface Change {
  readonly before: ClaimRecord | undefined
  readonly after: ClaimRecord | undefined
}

/** A claim, not the asking one, whose owner should hear how it stands now. */
export interface NotifiedClaim {
  readonly record: ClaimRecord
  readonly status: ClaimStatus
}

/** What one request comes to. @internal */
export interface Verdict {
  readonly status: ClaimStatus
  readonly changes: readonly Change[]
  readonly notifications: readonly NotifiedClaim[]
  /** Store these with the key. */
  readonly lastFence: number
  readonly ended: Ended | undefined
}
