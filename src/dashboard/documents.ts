/** What the server tells operators, as JSON. The page reads the same types. No claim ids anywhere: they are capabilities. */
import type { ClaimDocument } from '../api/operators/inspection.ts'

/** What the page must know before it can ask for anything. */
export interface AccessDocument {
  readonly wantsToken: boolean
}

/** What the token in hand may do. */
export interface GrantDocument {
  readonly name: string
  readonly rights: readonly string[]
  /** The store's name, for the title. */
  readonly store: string
  /** How often to look at what is no change, such as renewals. */
  readonly refreshMs: number
}

/** Who it is, in short. */
export interface RunnerDocument {
  readonly id: string
  readonly host: string
  readonly pid: number
  /** `user` and `command`, if it says so. */
  readonly metadata: Readonly<Record<string, string>>
}

/** A claim with its ages: the reader's clock need not agree with anybody's. */
export interface OperatorsClaim extends ClaimDocument {
  /** For how long it has held, or waited. */
  readonly sinceMs: number
  /** How long ago it was last heard of. */
  readonly lastHeartbeatMs: number
}

export interface OperatorsLock {
  readonly namespace: string
  /** As people write it. */
  readonly scope: string
  readonly key: string
  readonly holders: readonly OperatorsClaim[]
  /** In the order in which they will be granted. */
  readonly waiters: readonly OperatorsClaim[]
}

export interface OperatorsLockPage {
  readonly locks: readonly OperatorsLock[]
  /** Pass as `after` for the next page. Absent: there is none. */
  readonly next: string | undefined
}

/** Somebody who holds or waits: an owner, or a client whose claims name none. */
export interface OwnerDocument {
  /** Its name in this document, and in no other. */
  readonly id: string
  /** Absent: it has none, or one that nobody gave it. */
  readonly owner: string | undefined
  readonly runner: RunnerDocument
}

/** One owner waits for another. */
export interface WaitDocument {
  readonly from: string
  readonly to: string
  /** `holds`: until the other lets go. `ahead`: the other is to go first. */
  readonly because: 'holds' | 'ahead'
  readonly namespace: string
  readonly scope: string
  readonly key: string
  readonly sinceMs: number
  /** Part of a cycle. */
  readonly circular: boolean
}

export interface CyclesDocument {
  readonly owners: readonly OwnerDocument[]
  readonly waits: readonly WaitDocument[]
  /** Each waits for the next, and the last for the first. */
  readonly cycles: readonly (readonly { readonly owner: string; readonly key: string; readonly scope: string }[])[]
  /** There was more than is shown. */
  readonly truncated: boolean
}

/** One eviction, as this server remembers it. */
export interface AuditEntry {
  readonly at: string
  /** Which token. */
  readonly by: string
  readonly namespace: string
  readonly scope: string
  readonly key: string
  readonly fence: number
  /** Whose claim it was. Absent: nobody held the lock with that fence, or a client asked for it, as `leasehold evict` does. */
  readonly runner: RunnerDocument | undefined
  readonly reason: string
  /** `unknown`: the store did not say. */
  readonly result: 'evicted' | 'not-held' | 'unknown'
}

export type ChangeKind =
  /** A claim holds that did not. */
  | 'granted'
  /** A holder is gone whose lease was not over: it let go, or was evicted elsewhere. */
  | 'released'
  /** A holder's lease is over, or it was evicted here. */
  | 'lost'
  /** A claim waits that was not there. */
  | 'queued'
  /** A waiter is gone, and holds nothing. */
  | 'left'
  /** A holder was asked to leave. */
  | 'leaving'

/** What has changed between two looks at the store. */
export interface ChangeDocument {
  readonly kind: ChangeKind
  readonly at: string
  readonly namespace: string
  readonly scope: string
  readonly key: string
  /** 0 of those who wait. */
  readonly fence: number
  readonly runner: RunnerDocument
  readonly detail: string | undefined
}

/** How much was seen to happen between two looks, of what one may see. What came and went in between is in none of these. */
export interface PaceDocument {
  readonly granted: number
  /** Absent: this store does not count renewals. */
  readonly renewed: number | undefined
  /** Found the lock held, and wait for it. */
  readonly queued: number
  readonly lost: number
}

/** How many there are, of what one may see. */
export interface TotalsDocument {
  readonly locks: number
  readonly holders: number
  readonly waiters: number
  readonly expired: number
  /** There are more locks than are looked at. */
  readonly truncated: boolean
}
