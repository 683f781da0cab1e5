/**
 * A key's document as MongoDB keeps it. Values that the server computes with are fields; all else is JSON text, which is
 * cheapest for both sides. In a text, names with dots and dollars mean nothing to the server.
 */
import type { NotifiedClaim } from '../../core/rule/admission.ts'
import { howEnded, type ClaimRecord, type Ended } from '../../core/rule/claim-record.ts'
import type { Claim, ClaimStatus, Succession } from '../../core/contract/driver.ts'
import type { KeyDocument } from '../document/key-document.ts'
import { fromWireStatus } from '../../core/wire/replies.ts'

/** The format of documents this version writes, as `drivers/document/key-document.ts` counts them. */
export const collectionFormatVersion = 1

/** How long after its last fence a record must be kept, in milliseconds of the clock that fences begin at. */
export const keptForMs = 3_600_001
/** By how much longer a record is kept, so that its indexed date need not change with every write. */
export const keptLongerMs = 3_600_000

/** The last instant a date can have. */
const neverMs = 8_640_000_000_000_000
const never = new Date(neverMs)
const always = new Date(0)

/** The date, or the last there is: a later one would be stored as no date and count as long ago. */
function dateAt(ms: number): Date {
  return ms <= neverMs ? new Date(ms) : never
}

/**
 * A claim, with the channel of the driver that keeps it. A grant in one command writes only the required fields and what
 * the claim asks for: `decodeRecord` fills in the rest.
 */
export interface StoredClaim {
  readonly id: string
  readonly channel: string
  /** As it was asked for: JSON, without id and key. */
  readonly claim: string
  readonly ttlMs: number
  /** Absent: none. */
  readonly graceMs?: number | undefined
  readonly maxHoldMs?: number | undefined
  readonly state?: ClaimRecord['state'] | undefined
  readonly order?: number | undefined
  readonly fence?: number | undefined
  readonly detached?: boolean | undefined
  readonly enteredAt?: Date | undefined
  readonly acquiredAt?: Date | undefined
  readonly lastHeartbeat?: Date | undefined
  readonly renewalCount?: number | undefined
  readonly expiresAt?: Date | undefined
  readonly leaving?: string | undefined
  /** JSON. */
  readonly after?: string | undefined
  /** No other claim can be let in beside it, so it can be renewed without reading the queue. */
  readonly isAlone?: boolean | undefined
  /** The only claim of a document that remembers nothing else: one command may renew, release or replace it. */
  readonly isSole?: boolean | undefined
}

/** A notification for another driver, stored by the write that caused it. */
export interface StoredNotification {
  readonly to: string
  readonly id: string
  readonly status: string
}

export interface StoredKey {
  readonly _id: string
  readonly version: number
  /** Different after every write: what compare-and-swap compares. */
  readonly revision: string
  /** The server's time of the last write, releases in one command apart. */
  readonly writtenAt?: Date | undefined
  readonly lastFence: number
  /** How the last claim ended that was not released: JSON. */
  readonly ended?: string | undefined
  /** Holders first, then waiters in order. Empty: a release in one command left no claim and nothing to remember. */
  readonly claims?: readonly StoredClaim[] | undefined
  /** The claim that had expired when this key was taken in one command, if there was one. */
  readonly previous?: readonly StoredClaim[] | undefined
  /** The last fence before that. */
  readonly previousFence?: number | undefined
  /** From when on a new claim may take the key in one command. It may earlier if `claims` is empty. */
  readonly freeAt: Date
  readonly notifications?: readonly StoredNotification[] | undefined
  /** When the TTL index may collect the document: once all claims are over and its last fence cannot come again. */
  readonly expiresAt: Date
}

/** The fields that a read must give back. */
export const projectedFields = {
  version: 1,
  revision: 1,
  writtenAt: 1,
  lastFence: 1,
  ended: 1,
  claims: 1,
  previous: 1,
  previousFence: 1,
} as const

// ---- writing

/** The claim as it was asked for. Field by field: in Node 20 a rest pattern takes many times as long, and the type misses no field. */
export function claimJson(claim: Claim): string {
  const fields: { readonly [Field in keyof Required<Omit<Claim, 'id' | 'key'>>]: Claim[Field] } = {
    mode: claim.mode,
    limit: claim.limit,
    range: claim.range,
    replaces: claim.replaces,
    priority: claim.priority,
    wait: claim.wait,
    evict: claim.evict,
    staleMs: claim.staleMs,
    ttlMs: claim.ttlMs,
    graceMs: claim.graceMs,
    maxHoldMs: claim.maxHoldMs,
    detached: claim.detached,
    runner: claim.runner,
  }
  return JSON.stringify(fields)
}

export function encodeRecord(record: ClaimRecord, channel: string, isSole: boolean): StoredClaim {
  const { claim } = record
  return {
    id: claim.id,
    channel,
    claim: claimJson(claim),
    ttlMs: record.ttlMs,
    graceMs: claim.graceMs || undefined,
    maxHoldMs: claim.maxHoldMs,
    state: record.state,
    order: record.order,
    fence: record.fence,
    detached: record.detached,
    enteredAt: new Date(record.enteredAt),
    acquiredAt: new Date(record.acquiredAt),
    lastHeartbeat: new Date(record.lastHeartbeat),
    renewalCount: record.renewalCount,
    expiresAt: dateAt(record.expiresAt),
    leaving: record.leaving,
    after: record.after && JSON.stringify(record.after),
    isAlone: claim.mode === 'exclusive' && claim.range === undefined,
    isSole: isSole || undefined,
  }
}

/** Whether the document has one holder and nothing else that the rule would read. */
export function hasSole({ claims, ended, lastFence }: KeyDocument): boolean {
  const isOnly = claims.length === 1 && claims[0]?.state === 'held'
  return isOnly && ended === undefined && lastFence < Number.MAX_SAFE_INTEGER
}

/** From when on a new claim may take the key in one command. */
export function freeAt(document: KeyDocument): Date {
  const { claims, ended, lastFence } = document
  const [first] = claims
  if (first !== undefined && hasSole(document)) return dateAt(first.expiresAt + first.claim.graceMs)
  if (first !== undefined || lastFence >= Number.MAX_SAFE_INTEGER) return never
  // While an unclean end is remembered, the next holder may have to learn of it.
  return ended === undefined ? always : dateAt(ended.until)
}

/** From when on nothing in the document matters any more. */
export function forgetAt(document: KeyDocument): Date {
  const ends = document.claims.map(({ expiresAt, claim, ttlMs }) => expiresAt + claim.graceMs + ttlMs)
  const fenceOver = Math.ceil(document.lastFence / 1000) + keptForMs + keptLongerMs
  return dateAt(ends.reduce((last, end) => Math.max(last, end), Math.max(fenceOver, document.ended?.until ?? 0)))
}

export function encodeNotification({ record, status }: NotifiedClaim, to: string): StoredNotification {
  return { to, id: record.claim.id, status: JSON.stringify(status) }
}

// ---- reading

/** The document as the rule reads it. A damaged one gets no list of claims: `decodeKey` then refuses it. */
export function decodeMongodbDocument(key: string, stored: StoredKey): KeyDocument {
  const { version, lastFence } = stored
  if (version !== collectionFormatVersion) return { version, lastFence, claims: [] }
  try {
    return readable(key, stored)
  } catch {
    return { version, lastFence, claims: undefined as unknown as [] }
  }
}

function readable(key: string, stored: StoredKey): KeyDocument {
  const { version, lastFence, ended, claims = [], previous: [dead] = [] } = stored
  const writtenAt = Number(stored.writtenAt ?? 0)
  const records = claims.map((claim) => decodeRecord(key, claim, lastFence, writtenAt))
  const [first] = records
  if (dead === undefined || first === undefined) {
    return {
      version,
      lastFence,
      ended: ended === undefined ? undefined : (JSON.parse(ended) as Ended),
      claims: records,
    }
  }
  const over = decodeRecord(key, dead, stored.previousFence ?? lastFence - 1, 0)
  const after: Succession = { how: howEnded(over), fence: over.fence, runner: over.claim.runner }
  // Nothing has been written since: the end was noticed when the first claim came.
  const until = first.acquiredAt + over.ttlMs
  const lastEnd: Ended = { id: dead.id, how: after.how, fence: after.fence, runner: after.runner, until, told: true }
  return { version, lastFence, ended: lastEnd, claims: [{ ...first, after }] }
}

/** A claim out of the document. `lastFence` and `writtenAt` supply the fields that a grant in one command leaves out. */
function decodeRecord(key: string, stored: StoredClaim, lastFence: number, writtenAt: number): ClaimRecord {
  const { id, ttlMs, after } = stored
  const asked = JSON.parse(stored.claim) as Omit<Claim, 'id' | 'key'>
  return {
    claim: { ...asked, id, key },
    state: stored.state ?? 'held',
    order: stored.order ?? 1,
    fence: stored.fence ?? lastFence,
    ttlMs,
    detached: stored.detached ?? asked.detached ?? false,
    enteredAt: Number(stored.enteredAt ?? writtenAt),
    acquiredAt: Number(stored.acquiredAt ?? writtenAt),
    lastHeartbeat: Number(stored.lastHeartbeat ?? writtenAt),
    renewalCount: stored.renewalCount ?? 0,
    expiresAt: Number(stored.expiresAt ?? writtenAt + Math.min(ttlMs, asked.maxHoldMs ?? Infinity)),
    leaving: stored.leaving,
    after: after === undefined ? undefined : (JSON.parse(after) as Succession),
  }
}

/** The status of a stored notification; undefined: it cannot be read, and it is only a hint. */
export function decodeStatus(text: unknown): ClaimStatus | undefined {
  try {
    return fromWireStatus(JSON.parse(String(text)))
  } catch {
    return undefined
  }
}

/** The status of the first holder of a document that one command has just written. */
export function firstStatus(key: string, stored: StoredKey): ClaimStatus | undefined {
  const { claims } = decodeMongodbDocument(key, stored) as Partial<KeyDocument>
  const first = claims?.[0]
  if (first === undefined) return undefined
  const { fence, expiresAt, lastHeartbeat, leaving, after } = first
  return { state: 'held', fence, ttlMs: expiresAt - lastHeartbeat, leaving, after }
}
