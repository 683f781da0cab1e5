import type { AbsentReason, Claim, ListedClaim, Runner, Succession } from './driver.ts'

/** A claim as a store keeps it. Times are milliseconds of the store's clock. */
export interface ClaimRecord {
  /** As it was asked for. `ttlMs` and `detached` below are those in force. */
  readonly claim: Claim
  readonly state: 'held' | 'waiting'
  /** When it came, as a number that grows with every claim of the key. */
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
  /** Expired for its owner from this instant on; for others only after its grace. */
  readonly expiresAt: number
  /** Why its owner was asked to leave. */
  readonly leaving?: string | undefined
  /** Whom it took over from. */
  readonly after?: Succession | undefined
  /** The store has seen its process end: it counts as expired. Set by a driver as it reads, kept through a grace. */
  readonly died?: boolean | undefined
}

/** A copy to change before anybody sees it. Written out: Node 20 takes many times as long to spread a record. @internal */
export function copyOf(record: ClaimRecord): { -readonly [Field in keyof ClaimRecord]: ClaimRecord[Field] } {
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

/** How the last unclean end of a key came about: a hint for its owner and its successor, kept for one ttl. */
export interface Ended {
  readonly id: string
  readonly how: Succession['how']
  readonly detail?: string | undefined
  readonly fence: number
  readonly runner: Runner
  readonly until: number
  /** A successor has been told. */
  readonly told: boolean
}

/** Why a claim that ended this way is absent, in its owner's words: a process does not see itself die. @internal */
export function absentReason(how: Succession['how']): AbsentReason {
  return how === 'died' ? 'expired' : how
}

/**
 * The order in which waiters are promoted: conversions, whose owners hold already, then higher priority, then arrival.
 * Negative: `one` goes first.
 * @internal
 */
export function compareRank(one: ClaimRecord, other: ClaimRecord): number {
  const converting = Number(other.claim.replaces !== undefined) - Number(one.claim.replaces !== undefined)
  return converting || other.claim.priority - one.claim.priority || one.order - other.order
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
