import type { ClaimRecord } from '../../core/rule/claim-record.ts'
import { fenceFloor } from '../../core/rule/fence.ts'
import { claimRecordOf, type ClaimRow } from './claim-row.ts'
import { parseStamp } from '../../core/machine/liveness.ts'
import type { SelfIdentity } from './self-identity.ts'
import type { Statements } from './statements.ts'

/**
 * Translates rows into records for one driver during one transaction: into the driver's clock, and with the deaths it can see.
 * Checks each process once.
 */
export class RowObserver {
  readonly now: number
  readonly #self: SelfIdentity
  readonly #statements: Statements
  readonly #mayWrite: boolean
  readonly #gone = new Map<string, boolean>()

  constructor(self: SelfIdentity, statements: Statements, access: 'may write' | 'only reads') {
    this.now = self.now()
    this.#self = self
    this.#statements = statements
    this.#mayWrite = access === 'may write'
  }

  /** The least that a fence minted now may be: a file restored from an older copy has lost the last ones. */
  get fenceFloor(): number {
    return fenceFloor(this.#self.wall())
  }

  /** The stamp that this driver puts on rows. */
  get ownStamp(): string {
    return this.#self.name
  }

  /** Whether the row's times were written by a clock that is not ours. */
  isForeign(row: Pick<ClaimRow, 'stamp'>): boolean {
    return row.stamp !== this.#self.name && parseStamp(row.stamp)?.boot !== this.#self.stamp.boot
  }

  /** The row in this observer's clock, with the death of its process if that is certain. */
  see(row: ClaimRow): ClaimRecord {
    if (!this.isForeign(row)) return claimRecordOf(row, row.died || (!row.detached && this.hasDied(row.stamp)))
    // The claim has its full ttl from when this boot first saw it at this renewal count.
    const shifted = claimRecordOf(row, row.died, this.#firstSeen(row) - row.lastHeartbeat)
    return { ...shifted, expiresAt: Math.min(shifted.expiresAt, shifted.lastHeartbeat + row.ttlMs) }
  }

  /** Whether the process behind a stamp of this boot has surely ended. */
  hasDied(stamp: string): boolean {
    if (stamp === this.#self.name) return false
    let gone = this.#gone.get(stamp)
    if (gone === undefined) {
      const parsed = parseStamp(stamp)
      gone = parsed !== undefined && this.#self.isGone(parsed)
      this.#gone.set(stamp, gone)
    }
    return gone
  }

  /**
   * Sightings are kept in the file, not in memory: a job that cron starts anew each minute must get its turn too. Where each process has a
   * clock of its own, the coarse clock that they share is used as well: the clock that has seen the claim for longer counts.
   */
  #firstSeen(row: ClaimRow): number {
    const { stamp, sightClock } = this.#self
    const seenForMs = this.#seenForMs(row, stamp.boot, this.now)
    if (sightClock === undefined) return this.now - seenForMs
    const coarselyMs = this.#seenForMs(row, sightClock.name(), Math.floor(sightClock.now())) - sightClock.marginMs
    return this.now - Math.max(seenForMs, coarselyMs)
  }

  /** For how long the claim has been seen at this renewal count, by the clock of this name. */
  #seenForMs(row: ClaimRow, clock: string, now: number): number {
    const { key, id } = row.claim
    const sighting = this.#statements.sightingOf.get(key, id, clock)
    if (sighting !== undefined && sighting['renewal_count'] === row.renewalCount) {
      return Math.max(0, now - (sighting['seen_at'] as number))
    }
    if (this.#mayWrite) this.#statements.setSighting.run(key, id, clock, row.renewalCount, now)
    return 0
  }
}
