/**
 * The JSON that the server sends to operators. The OpenAPI document is written from the schemas, and the page uses the types.
 * None has the id of a claim, which is a capability.
 */
import {
  amount,
  anyText,
  choice,
  flag,
  list,
  metadata,
  openObject,
  optional,
  integer,
  type Described,
  type Schema,
} from '../core/wire/schema.ts'

const moment: Schema<string> = { kind: 'text', least: 0, most: Infinity, format: 'date-time' }
const count = integer({ least: 0, most: Infinity })

/** The fields that name a lock. */
const place = {
  namespace: anyText,
  /** The scope, as people write it. */
  scope: anyText,
  key: anyText,
}

/** What the page must know before its first call. */
export const accessDocument = openObject({ wantsToken: flag })
export type AccessDocument = Described<typeof accessDocument>

/** The name and the rights of the caller's token. */
export const principalDocument = openObject({
  name: anyText,
  rights: list(anyText),
  /** The store's name, for the title. */
  store: anyText,
  /** How often to read what no event reports, such as renewals. */
  refreshMs: amount,
})
export type PrincipalDocument = Described<typeof principalDocument>

/** A runner, in short. */
const runnerDocument = openObject({
  id: anyText,
  host: anyText,
  pid: count,
  /** `user` and `command`, if the runner says so. */
  metadata: metadata as Schema<Readonly<Record<string, string>>>,
})
export type RunnerDocument = Described<typeof runnerDocument>

/** A claim with its ages, so that the reader's clock need not agree with the store's. */
const operatorsClaim = openObject({
  runner: openObject({ id: anyText, host: anyText, pid: count, metadata: optional(metadata) }),
  mode: choice('exclusive', 'shared'),
  limit: optional(count),
  range: optional(openObject({ start: count, end: count })),
  priority: integer({ least: -Infinity, most: Infinity }),
  /** 0 while waiting. */
  fence: count,
  enteredAt: moment,
  /** Absent while waiting. */
  acquiredAt: optional(moment),
  lastHeartbeat: moment,
  renewalCount: count,
  expiresAt: moment,
  ttlMs: amount,
  remainingMs: amount,
  expired: flag,
  /** Why the holder was asked to leave; absent if it was not. */
  leaving: optional(anyText),
  /** For how long the claim has held, or waited. */
  sinceMs: amount,
  /** How long ago the claim was last renewed. */
  lastHeartbeatMs: amount,
})
export type OperatorsClaim = Described<typeof operatorsClaim>

/** One lock: the first of its holders and waiters, and how many there are. */
const operatorsLock = openObject({
  ...place,
  held: count,
  waiting: count,
  holders: list(operatorsClaim),
  /** In the order in which they will be granted. */
  waiters: list(operatorsClaim),
})
export type OperatorsLock = Described<typeof operatorsLock>

/** A page of locks. */
export const operatorsLockPage = openObject({
  locks: list(operatorsLock),
  /** Pass as `after` for the next page. Absent on the last page. */
  next: optional(anyText),
})
export type OperatorsLockPage = Described<typeof operatorsLockPage>

/** An owner that holds or waits, or a client whose claims name no owner. */
const ownerDocument = openObject({
  /** The owner's id in this document only. */
  id: anyText,
  /** Absent: the owner has no name, or a generated one. */
  owner: optional(anyText),
  runner: runnerDocument,
})
export type OwnerDocument = Described<typeof ownerDocument>

/** One owner waits for another. */
const waitDocument = openObject({
  from: anyText,
  to: anyText,
  /** `holds`: the other owner holds the lock. `ahead`: the other owner is earlier in the queue. */
  because: choice('holds', 'ahead'),
  ...place,
  sinceMs: amount,
  /** The wait is part of a cycle. */
  circular: flag,
})
export type WaitDocument = Described<typeof waitDocument>

/** Which owner waits for which. */
export const cyclesDocument = openObject({
  owners: list(ownerDocument),
  waits: list(waitDocument),
  /** In a cycle each owner waits for the next, and the last for the first. */
  cycles: list(list(openObject({ owner: anyText, key: anyText, scope: anyText }))),
  /** Some owners or waits are left out. */
  truncated: flag,
})
export type CyclesDocument = Described<typeof cyclesDocument>

/** One eviction, as this server remembers it. */
export const auditEntry = openObject({
  at: moment,
  /** The name of the token. */
  by: anyText,
  ...place,
  fence: count,
  /** The evicted holder. Absent: nobody held the lock with that fence, or a client evicted it, as `leasehold evict` does. */
  runner: optional(runnerDocument),
  reason: anyText,
  /** `unknown`: the store did not say. */
  result: choice('evicted', 'not-held', 'unknown'),
})
export type AuditEntry = Described<typeof auditEntry>

/** The evictions since the server started, newest first. */
export const auditDocument = openObject({ evictions: list(auditEntry) })

// ---- events of `GET /v1/changes`

/**
 * The kinds of change of a claim. `granted`: it has become a holder. `released`: a holder is gone before its lease was over, as it released,
 * or was evicted elsewhere. `lost`: a holder's lease is over, or it was evicted here. `queued`: it is new, and waits. `left`: a waiter is gone
 * without having become a holder. `leaving`: a holder was asked to leave.
 */
const changeKind = choice('granted', 'released', 'lost', 'queued', 'left', 'leaving')
export type ChangeKind = Described<typeof changeKind>

/** One change between two snapshots of the store. */
const changeDocument = openObject({
  kind: changeKind,
  at: moment,
  ...place,
  /** 0 while waiting. */
  fence: count,
  runner: runnerDocument,
  detail: optional(anyText),
  /** Of a grant: how long the claim had waited. */
  waitedMs: optional(amount),
  /** Of a grant: the holder before it ended uncleanly. */
  takeover: optional(flag),
})
export type ChangeDocument = Described<typeof changeDocument>

// ---- what the page's views read

/** One row of the table of locks. */
const lockRow = openObject({
  ...place,
  held: count,
  waiting: count,
  /** The first holders: those that matter for the state of the lock. */
  holders: list(operatorsClaim),
  /** What the holders say they are, by the name `service` of their metadata. */
  services: list(anyText),
  /** For how long the first of the waiters to come has waited; 0 without waiters. */
  longestWaitMs: amount,
})
export type LockRow = Described<typeof lockRow>

/** Some rows of the table of locks, as it is sorted. */
export const overviewDocument = openObject({
  /** How many rows there are. */
  total: count,
  /** The place of the first of these. */
  from: count,
  rows: list(lockRow),
  /** The namespaces and services that there are, for the filters: the first hundreds. */
  namespaces: list(anyText),
  services: list(anyText),
  /** There are more locks than can be sorted: choose a namespace. */
  truncated: flag,
})
export type OverviewDocument = Described<typeof overviewDocument>

/** One lock, and what was seen of it. */
export const lockPageDocument = openObject({
  lock: operatorsLock,
  /** What happened to it, the newest first. */
  history: list(changeDocument),
})
export type LockPageDocument = Described<typeof lockPageDocument>

/** What was seen in one minute. */
const seriesPoint = openObject({
  /** Its beginning. */
  at: moment,
  granted: count,
  queued: count,
  lost: count,
  takeovers: count,
  /** The most that waited at a time. */
  waiting: count,
  /** Half of the grants had waited for no longer. Absent: nothing was granted. */
  waitP50Ms: optional(amount),
  waitP99Ms: optional(amount),
})
export type SeriesPoint = Described<typeof seriesPoint>

/** The last hour, minute by minute, of what the server has seen. */
export const seriesDocument = openObject({
  points: list(seriesPoint),
  /** The caller may read parts of a namespace: what happens there is left out. */
  partial: flag,
})
export type SeriesDocument = Described<typeof seriesDocument>

/** What happened between two snapshots, among the locks that the token may see. Claims that came and went in between are not counted. */
export interface RatesDocument {
  readonly granted: number
  /** Absent: this store does not count renewals. */
  readonly renewed: number | undefined
  /** Claims that found the lock held, and wait for it. */
  readonly queued: number
  readonly lost: number
}

/** How many locks and claims there are, among those that the token may see. */
export interface TotalsDocument {
  readonly locks: number
  readonly holders: number
  readonly waiters: number
  readonly expired: number
  /** There are more locks than a snapshot holds. */
  readonly truncated: boolean
}
