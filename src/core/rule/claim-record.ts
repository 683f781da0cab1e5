import type { Crowd } from './holders.ts'
import type { WaiterCrowd } from './waiters.ts'
import type {
  AbsentReason,
  Claim,
  EvictionCause,
  ListedClaim,
  Runner,
  Succession,
  ClaimStatus,
} from '../contract/driver.ts'

/** A claim as a store keeps it. Times are milliseconds of the store's clock. */
export interface ClaimRecord {
  /** The claim as sent. The `ttlMs` and `detached` in force are those below. */
  readonly claim: Claim
  readonly state: 'held' | 'waiting'
  /** Grows with every claim of the key: the order of arrival. */
  readonly order: number
  /** 0 while waiting. */
  readonly fence: number
  readonly ttlMs: number
  readonly detached: boolean
  readonly enteredAt: number
  /** 0 while waiting. */
  readonly acquiredAt: number
  readonly lastHeartbeat: number
  readonly renewalCount: number
  /** The lease is over for its owner from this instant on; for others only after its grace. */
  readonly expiresAt: number
  /** Why the holder was asked to leave. */
  readonly leaving?: string | undefined
  /** Which holder it took over from. */
  readonly after?: Succession | undefined
  /** The store saw the claim's process end: the lease counts as over. Set by a driver as it reads, kept through a grace. */
  readonly died?: boolean | undefined
}

/** A copy to change before it is used. Written out: Node 20 takes many times as long to spread a record. @internal */
export function copyRecord(record: ClaimRecord): { -readonly [Field in keyof ClaimRecord]: ClaimRecord[Field] } {
  return {
    claim: record.claim,
    state: record.state,
    order: record.order,
    fence: record.fence,
    ttlMs: record.ttlMs,
    detached: record.detached,
    enteredAt: record.enteredAt,
    acquiredAt: record.acquiredAt,
    lastHeartbeat: record.lastHeartbeat,
    renewalCount: record.renewalCount,
    expiresAt: record.expiresAt,
    leaving: record.leaving,
    after: record.after,
    died: record.died,
  }
}

/** How the last unclean end of a key came about: for its owner and its successor, kept for one ttl. */
export interface Ended {
  readonly id: string
  readonly how: Succession['how']
  /** What evicted it; undefined: nothing did, or an older version noted this. */
  readonly cause?: EvictionCause | undefined
  readonly detail?: string | undefined
  readonly fence: number
  readonly runner: Runner
  readonly until: number
  /** A successor has been told of this end. */
  readonly told: boolean
}

/** Why a claim that ended this way is absent, as its owner is told: a process does not see itself die. @internal */
export function absentReason(how: Succession['how']): AbsentReason {
  return how === 'died' ? 'expired' : how
}

/**
 * The order in which waiters are promoted: conversions, whose owners hold already, then higher priority, then arrival.
 * Negative: `record` goes first.
 * @internal
 */
export function compareRank(record: ClaimRecord, otherRecord: ClaimRecord): number {
  const converting = Number(otherRecord.claim.replaces !== undefined) - Number(record.claim.replaces !== undefined)
  return converting || otherRecord.claim.priority - record.claim.priority || record.order - otherRecord.order
}

/** The record as `list` shows it. @internal */
export function listed(record: ClaimRecord): ListedClaim {
  const { claim } = record
  return {
    id: claim.id,
    state: record.state,
    mode: claim.mode,
    limit: claim.limit,
    range: claim.range,
    priority: claim.priority,
    fence: record.fence,
    ttlMs: record.ttlMs,
    graceMs: claim.graceMs,
    maxHoldMs: claim.maxHoldMs,
    leaving: record.leaving,
    detached: record.detached,
    converting: record.state === 'waiting' && claim.replaces !== undefined,
    enteredAt: record.enteredAt,
    acquiredAt: record.acquiredAt,
    lastHeartbeat: record.lastHeartbeat,
    renewalCount: record.renewalCount,
    expiresAt: record.expiresAt,
    runner: claim.runner,
  }
}

/** The record as it counts now: the lease of a dead process ends, a lease with more than its ttl left is cut to its ttl. */
export function judge(record: ClaimRecord, now: number): ClaimRecord {
  if (record.died === true && record.expiresAt > now) return { ...record, expiresAt: now }
  if (record.expiresAt - now <= record.ttlMs) return record
  // The clock was set back: nothing that has happened can lie in the future.
  const acquiredAt = Math.min(record.acquiredAt, now)
  const end = now + record.ttlMs
  return {
    ...record,
    expiresAt: record.state === 'held' ? capByMaxHold(end, acquiredAt, record.claim.maxHoldMs) : end,
    acquiredAt,
    lastHeartbeat: Math.min(record.lastHeartbeat, now),
  }
}

/** Why a holder's time is over. */
export function howEnded(record: ClaimRecord): Succession['how'] {
  if (record.died === true) return 'died'
  const { maxHoldMs } = record.claim
  return maxHoldMs !== undefined && record.expiresAt >= record.acquiredAt + maxHoldMs ? 'max-hold' : 'expired'
}

/** The end of a lease, no later than its longest hold allows. */
export function capByMaxHold(end: number, acquiredAt: number, maxHoldMs: number | undefined): number {
  return maxHoldMs === undefined ? end : Math.min(end, acquiredAt + maxHoldMs)
}

/** A key's claims, read only as far as the rule needs: a release must not decode ten thousand waiters. @internal */
export interface KeyView {
  /** The last fence minted here; 0 if none is known. */
  readonly lastFence: number
  /**
   * The least the next fence may be: the store's wall clock in microseconds, at every grant. `lastFence` may have been
   * lost, or come from an older copy that was restored.
   */
  readonly fenceFloor: number
  readonly ended: Ended | undefined
  /** In the order of their grants. The rule asks for them only if there is no `crowd`. */
  holders(): readonly ClaimRecord[]
  /** The holders, where there are so many that a request must not read them all. */
  readonly crowd?: Crowd | undefined
  /** In the order of `compareRank`. */
  waiters(): Iterable<ClaimRecord>
  /** The waiters, where so many wait for ranges that a request must not read them all. */
  readonly waiterCrowd?: WaiterCrowd | undefined
  find(id: string): ClaimRecord | undefined
  /** How many stored waiters rank before this record, which may itself not be stored yet. */
  ahead(record: ClaimRecord): number
  /** A number above the `order` of every claim this key has had since it was last empty. */
  nextOrder(): number
}

/** One step to carry out in the store. A record without `before` is new; without `after` it is removed. */
export interface RecordChange {
  readonly before: ClaimRecord | undefined
  readonly after: ClaimRecord | undefined
}

/** A claim, not the asking one, whose owner is notified of its status. */
export interface NotifiedClaim {
  readonly record: ClaimRecord
  readonly status: ClaimStatus
}

/** What the rule decides about one request. @internal */
export interface Decision {
  readonly status: ClaimStatus
  readonly changes: readonly RecordChange[]
  readonly notifications: readonly NotifiedClaim[]
  /** To be stored with the key, as is `ended`. */
  readonly lastFence: number
  readonly ended: Ended | undefined
}
