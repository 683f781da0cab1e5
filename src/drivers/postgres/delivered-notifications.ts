import type { ClaimStatus } from '../../core/driver.ts'

/** More than can be under way at once. */
const claimsMax = 1000

/**
 * What was last told of claims. News comes by two ways, with answers and as notifications, and may overtake itself; a
 * status only moves on, so what comes late is told by what it says.
 */
export class DeliveredNotifications {
  readonly #lastRank = new Map<string, number>()

  /** Notes the news. False: something later has been told of the claim. */
  isNew(id: string, status: ClaimStatus): boolean {
    const rank = rankOf(status)
    if (rank < (this.#lastRank.get(id) ?? 0)) return false
    this.#lastRank.delete(id)
    this.#lastRank.set(id, rank)
    const [oldest] = this.#lastRank.keys()
    if (this.#lastRank.size > claimsMax && oldest !== undefined) this.#lastRank.delete(oldest)
    return true
  }

  /** The claim waits: whatever was told of it was of an earlier life. */
  forget(id: string): void {
    this.#lastRank.delete(id)
  }
}

function rankOf(status: ClaimStatus): number {
  if (status.state === 'held') return status.leaving === undefined ? 1 : 2
  return status.state === 'absent' ? 3 : 0
}
