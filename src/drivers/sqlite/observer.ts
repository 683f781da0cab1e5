import type { ClaimRecord } from '../../core/claim-record.ts'
import { recordOf, type ClaimRow } from './claim-row.ts'
import { ownerName, parseOwner, type Owner } from '../../core/owner.ts'
import type { Statements } from './statements.ts'

/**
 * How one driver sees the claims of others during one transaction: its clock, its boot, and whom it knows to be dead.
 * Looks at each process once.
 */
export class Observer {
  readonly now: number
  readonly #self: Owner
  readonly #selfName: string
  readonly #isGone: (owner: Owner) => boolean
  readonly #statements: Statements
  readonly #mayWrite: boolean
  readonly #gone = new Map<string, boolean>()

  constructor(now: number, self: Owner, isGone: (owner: Owner) => boolean, statements: Statements, mayWrite: boolean) {
    this.now = now
    this.#self = self
    this.#selfName = ownerName(self)
    this.#isGone = isGone
    this.#statements = statements
    this.#mayWrite = mayWrite
  }

  /** Whether the row's times were written by a clock that is not ours. */
  isForeign(row: ClaimRow): boolean {
    return row.owner !== this.#selfName && parseOwner(row.owner)?.boot !== this.#self.boot
  }

  /** The row in this observer's clock, with the death of its process if that is certain. */
  see(row: ClaimRow): ClaimRecord {
    if (!this.isForeign(row)) return recordOf(row, row.died || (!row.detached && this.#hasDied(row.owner)))
    // Its full ttl, counted from when this boot first saw it at this renewal count.
    const shifted = recordOf(row, row.died, this.#firstSeen(row) - row.lastHeartbeat)
    return { ...shifted, expiresAt: Math.min(shifted.expiresAt, shifted.lastHeartbeat + row.ttlMs) }
  }

  #hasDied(owner: string): boolean {
    if (owner === this.#selfName) return false
    let gone = this.#gone.get(owner)
    if (gone === undefined) {
      const parsed = parseOwner(owner)
      gone = parsed !== undefined && this.#isGone(parsed)
      this.#gone.set(owner, gone)
    }
    return gone
  }

  /** Kept in the file, not in memory: a job that cron starts anew each minute must get its turn too. */
  #firstSeen(row: ClaimRow): number {
    const { key, id } = row.claim
    const sighting = this.#statements.sightingOf.get(key, id, this.#self.boot)
    if (sighting !== undefined && sighting['renewal_count'] === row.renewalCount) return sighting['seen_at'] as number
    if (this.#mayWrite) this.#statements.setSighting.run(key, id, this.#self.boot, row.renewalCount, this.now)
    return this.now
  }
}
