import type { ClaimRecord } from '../../core/rule/claim-record.ts'
import type { Claim, Succession } from '../../core/contract/driver.ts'
import { shortRunner } from '../../core/rule/short-runner.ts'
import { strictnessOf } from '../../core/rule/waiters.ts'
import { takesWholeKey } from '../kit/plain-claim.ts'
import { crowdValues, endsAt, rangeValues } from './crowd-shape.ts'
import { readClaim, readSuccession, successionText, termsText } from './claim-text.ts'
import type { SqliteRow, SqliteValue } from './database.ts'

/** A claim as the file has it, in the names and the clock of the file. */
export interface ClaimRow {
  readonly state: 'held' | 'waiting'
  readonly claim: Claim
  /** For a waiter its arrival, for a holder its turn. */
  readonly order: number
  readonly fence: number
  readonly stamp: string
  readonly ttlMs: number
  readonly detached: boolean
  readonly enteredAt: number
  readonly acquiredAt: number
  readonly lastHeartbeat: number
  readonly renewalCount: number
  readonly expiresAt: number
  readonly died: boolean
  readonly leaving: string | undefined
  readonly succession: Succession | undefined
}

/** No priority is lower or higher than this. */
const priorityMax = 1000

/** The bands of conversions are lower than this, all others higher. */
export const conversionBandsEnd = 3 * priorityMax

/** A waiter's place in the order of `compareRank`, but for its arrival: lower goes first. */
export function bandOf({ replaces, priority }: Claim): number {
  return (replaces === undefined ? 4 * priorityMax : 0) + priorityMax - priority
}

/** Reads a row of `holders` or `waiters`. */
export function decodeRow(row: SqliteRow, state: 'held' | 'waiting'): ClaimRow {
  const held = state === 'held'
  const lastHeartbeat = row['last_heartbeat'] as number
  return {
    state,
    claim: readClaim(row),
    order: row[held ? 'turn' : 'arrival'] as number,
    fence: held ? (row['fence'] as number) : 0,
    stamp: row['stamp'] as string,
    ttlMs: row['ttl_ms'] as number,
    detached: row['detached'] === 1,
    enteredAt: row['entered_at'] as number,
    // Granted by another boot: it was still waiting at its last heartbeat, so it has been held since then at most.
    acquiredAt: held ? (row['acquired_at'] as number) || lastHeartbeat : 0,
    lastHeartbeat,
    renewalCount: row['renewal_count'] as number,
    expiresAt: row['expires_at'] as number,
    died: held && row['died'] === 1,
    leaving: held ? ((row['leaving'] as string | null) ?? undefined) : undefined,
    succession: held ? readSuccession(row) : undefined,
  }
}

/** The row as `admit` sees it: `shiftMs` moves the times of another boot's clock onto the observer's. */
export function claimRecordOf(row: ClaimRow, died: boolean, shiftMs = 0): ClaimRecord {
  return {
    claim: row.claim,
    state: row.state,
    order: row.order,
    fence: row.fence,
    ttlMs: row.ttlMs,
    detached: row.detached,
    enteredAt: row.enteredAt + shiftMs,
    acquiredAt: row.state === 'held' ? row.acquiredAt + shiftMs : 0,
    lastHeartbeat: row.lastHeartbeat + shiftMs,
    renewalCount: row.renewalCount,
    expiresAt: row.expiresAt + shiftMs,
    leaving: row.leaving,
    after: row.succession,
    died: died ? true : undefined,
  }
}

/** What to store for a record whose times are of `stamp`'s clock. */
export function rowOf(record: ClaimRecord, stamp: string): ClaimRow {
  return {
    state: record.state,
    claim: record.claim,
    order: record.order,
    fence: record.fence,
    stamp,
    ttlMs: record.ttlMs,
    detached: record.detached,
    enteredAt: record.enteredAt,
    acquiredAt: record.acquiredAt,
    lastHeartbeat: record.lastHeartbeat,
    renewalCount: record.renewalCount,
    expiresAt: record.expiresAt,
    died: record.died ?? false,
    leaving: record.leaving,
    succession: record.after,
  }
}

/**
 * What to store for a record of another boot that its owner did not send: the step taken (granted, asked to leave), and
 * the lease exactly as its owner wrote it.
 */
export function foreignRowOf(record: ClaimRecord, stored: ClaimRow): ClaimRow {
  return {
    ...stored,
    state: record.state,
    fence: record.fence,
    // Our clock cannot say when, in the terms of the owner's.
    acquiredAt: stored.state === 'held' ? stored.acquiredAt : 0,
    leaving: record.leaving,
    succession: record.after,
  }
}

/** The values of a new row of `holders`, in the order of its columns. */
export function newHolderValues(row: ClaimRow, turn: number): SqliteValue[] {
  return [
    row.claim.key,
    row.claim.id,
    turn,
    row.fence,
    row.stamp,
    row.ttlMs,
    Number(row.detached),
    row.enteredAt,
    row.acquiredAt,
    row.lastHeartbeat,
    row.renewalCount,
    row.expiresAt,
    Number(row.died),
    row.leaving ?? null,
    row.succession === undefined ? null : successionText(row.succession),
    shortRunner(row.claim.runner),
    termsText(row.claim, row.ttlMs, row.detached),
    ...crowdValues(row.claim, row.expiresAt),
  ]
}

/** The values for `updateHolder`: key, id, and all that can change while a claim is held. */
export function holderValues(row: ClaimRow): SqliteValue[] {
  return [
    row.claim.key,
    row.claim.id,
    row.fence,
    row.stamp,
    row.ttlMs,
    Number(row.detached),
    row.acquiredAt,
    row.lastHeartbeat,
    row.renewalCount,
    row.expiresAt,
    Number(row.died),
    row.leaving ?? null,
    row.succession === undefined ? null : successionText(row.succession),
    termsText(row.claim, row.ttlMs, row.detached),
    endsAt(row.claim, row.expiresAt),
  ]
}

/** The values of a new row of `waiters`, in the order of its columns. */
export function newWaiterValues(row: ClaimRow): SqliteValue[] {
  return [
    row.claim.key,
    row.claim.id,
    bandOf(row.claim),
    row.order,
    row.stamp,
    row.ttlMs,
    Number(row.detached),
    row.enteredAt,
    row.lastHeartbeat,
    row.renewalCount,
    row.expiresAt,
    Number(takesWholeKey(row.claim)),
    shortRunner(row.claim.runner),
    termsText(row.claim, row.ttlMs, row.detached),
    Number(strictnessOf(row.claim) === 'soft'),
    ...rangeValues(row.claim),
  ]
}

/** The values for `updateWaiter`: key, id, and all that can change while a claim waits. */
export function waiterValues(row: ClaimRow): SqliteValue[] {
  return [
    row.claim.key,
    row.claim.id,
    row.stamp,
    row.ttlMs,
    Number(row.detached),
    row.lastHeartbeat,
    row.renewalCount,
    row.expiresAt,
    termsText(row.claim, row.ttlMs, row.detached),
  ]
}
