import { mkdirSync, readFileSync } from 'node:fs'
import type { Ended } from '../../src/core/claim-record.ts'
import type { Claim, Succession } from '../../src/core/driver.ts'
import { bandOf, isPlain } from '../../src/drivers/sqlite/claim-row.ts'
import { openDatabase, type Database, type Value } from '../../src/drivers/sqlite/database.ts'
import { applicationId } from '../../src/drivers/sqlite/store-file.ts'

export type OldFormat = 1 | 2 | 3

/** What the columns of an older format said of a claim. */
interface Times {
  readonly owner: string
  readonly enteredAt: number
  readonly lastHeartbeat: number
  readonly expiresAt: number
  /** In force, where a renewal has changed them. */
  readonly ttlMs?: number
  readonly detached?: boolean
  readonly renewalCount?: number
}

export interface OldHolder extends Times {
  readonly claim: Claim
  readonly turn: number
  readonly fence: number
  readonly acquiredAt: number
  readonly leaving?: string
  readonly succession?: Succession
}

export interface OldWaiter extends Times {
  readonly claim: Claim
  readonly arrival: number
}

export interface OldContents {
  readonly fence: number
  readonly sequence: number
  readonly boot: string
  readonly held?: readonly OldHolder[]
  readonly waiting?: readonly OldWaiter[]
  readonly ended?: readonly { readonly key: string; readonly boot: string; readonly details: Ended }[]
  readonly sightings?: readonly (readonly [key: string, id: string, boot: string, renewals: number, seenAt: number])[]
}

/** A lock file as an older version left it, still open there. */
export function makeOldFile(file: string, format: OldFormat, contents: OldContents): Database {
  mkdirSync(`${file}.inboxes`)
  const old = openDatabase(file)
  old.exec(tablesOf(1))
  insert(old, 'counters', [1, contents.fence, contents.sequence, contents.boot])
  for (const later of [2, 3] as const) if (format >= later) old.exec(tablesOf(later))
  old.exec(`pragma application_id = ${applicationId}; pragma user_version = ${format}; pragma journal_mode = wal`)
  for (const row of contents.held ?? []) insert(old, 'holders', holderValues(row))
  for (const row of contents.waiting ?? []) insert(old, 'waiters', waiterValues(row, format))
  for (const { key, boot, details } of contents.ended ?? [])
    insert(old, 'ended', [key, boot, details.until, JSON.stringify(details)])
  for (const row of contents.sightings ?? []) insert(old, 'sightings', [...row])
  return old
}

function tablesOf(format: OldFormat): string {
  return readFileSync(new URL(`formats/format-${format}.sql`, import.meta.url), 'utf8')
}

function insert(database: Database, table: string, values: Value[]): void {
  database.command(`insert into ${table} values (${values.map(() => '?').join(', ')})`).run(...values)
}

function holderValues(row: OldHolder): Value[] {
  const { claim } = row
  return [
    claim.key,
    claim.id,
    row.turn,
    row.fence,
    row.owner,
    row.ttlMs ?? claim.ttlMs,
    Number(row.detached ?? claim.detached ?? false),
    row.enteredAt,
    row.acquiredAt,
    row.lastHeartbeat,
    row.renewalCount ?? 0,
    row.expiresAt,
    0,
    row.leaving ?? null,
    row.succession === undefined ? null : JSON.stringify(row.succession),
    JSON.stringify(claim),
  ]
}

function waiterValues(row: OldWaiter, format: OldFormat): Value[] {
  const { claim } = row
  const values = [
    claim.key,
    claim.id,
    bandOf(claim),
    row.arrival,
    row.owner,
    row.ttlMs ?? claim.ttlMs,
    Number(row.detached ?? claim.detached ?? false),
    row.enteredAt,
    row.lastHeartbeat,
    row.renewalCount ?? 0,
    row.expiresAt,
    JSON.stringify(claim),
  ]
  return format === 3 ? [...values, Number(isPlain(claim))] : values
}
