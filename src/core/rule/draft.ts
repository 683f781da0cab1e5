import {
  absentReason,
  compareRank,
  type ClaimRecord,
  type Ended,
  howEnded,
  judge,
  type RecordChange,
  type KeyView,
  type NotifiedClaim,
} from './claim-record.ts'
import { overlaps } from './conflict.ts'
import type { AbsentReason, ClaimStatus, Succession } from '../contract/driver.ts'

/** The work of one request: the view of the key, and what has been decided so far. */
export class KeyDraft {
  readonly view: KeyView
  readonly now: number
  changes: RecordChange[] = none
  notifications: NotifiedClaim[] = none
  lastFence: number
  ended: Ended | undefined
  /** The holders, as decided so far. */
  holders: readonly ClaimRecord[] = none
  /** The asking claim, kept out of `changes` until it is settled. */
  subject: ClaimRecord | undefined
  /** The asking claim as stored; undefined if it is new. */
  subjectBefore: ClaimRecord | undefined
  /** Holders whose time this request found to be over. */
  expiredHolders: ClaimRecord[] = none
  /** Waiters this request has removed or promoted. */
  left: ClaimRecord[] = none
  #dropReason: AbsentReason | undefined

  constructor(view: KeyView, now: number) {
    this.view = view
    this.now = now
    this.lastFence = view.lastFence
    this.ended = view.ended !== undefined && now < view.ended.until ? view.ended : undefined
  }

  // ---- time

  /**
   * Ends holders whose time is over, and cuts leases that a clock that was set back has stretched. The claim that is being
   * renewed lives on, even if the store saw the process end that held it before.
   */
  settleHolders(renewing: string | undefined): void {
    const stored = this.view.holders()
    if (stored.length === 0) return
    this.holders = stored
    for (const holder of stored) {
      const settled = this.#settle(holder, renewing)
      if (settled === undefined) this.holders = this.holders.filter((each) => each !== holder)
      else if (settled !== holder) this.replaceHolder(holder, settled)
    }
    if (this.expiredHolders.length === 0) return
    // If several ended, remember the one that was granted last, in whatever order the store reads them.
    const last = this.expiredHolders.reduce((latest, holder) => (latest.fence > holder.fence ? latest : holder))
    this.noteEnd(last, howEnded(last))
  }

  /** The holder as it counts now; undefined if its time is over. */
  #settle(holder: ClaimRecord, renewing: string | undefined): ClaimRecord | undefined {
    const revived = holder.died === true && holder.claim.id === renewing ? { ...holder, died: undefined } : holder
    const record = judge(revived, this.now)
    if (this.now < record.expiresAt + record.claim.graceMs) {
      if (record !== revived) this.change(holder, record)
      return record
    }
    this.expiredHolders = added(this.expiredHolders, record)
    this.change(holder, undefined)
    return undefined
  }

  /** Remembers an unclean end, for its owner and for its successor. */
  noteEnd(record: ClaimRecord, how: Succession['how'], detail?: string): void {
    const { id, runner } = record.claim
    this.ended = { id, how, fence: record.fence, runner, until: this.now + record.ttlMs, told: false, detail }
  }

  // ---- who is here

  /** A claim of this key, unless its time is over: then, if it waits, it is removed. */
  find(id: string): ClaimRecord | undefined {
    for (const holder of this.holders) if (holder.claim.id === id) return holder
    const stored = this.view.find(id)
    if (stored === undefined || stored.state === 'held') return undefined
    const waiter = judge(stored, this.now)
    if (this.now < waiter.expiresAt) {
      if (waiter !== stored) this.change(stored, waiter)
      return waiter
    }
    this.removeWaiter(stored)
    return undefined
  }

  /** Whether a claim holds and its lease is not over: in its grace a claim blocks others and protects nothing. */
  holds(id: string): boolean {
    return this.holders.some((holder) => holder.claim.id === id && this.now < holder.expiresAt)
  }

  /** Whether this request has found the claim to be over. */
  hasEnded(id: string): boolean {
    return this.left.length > 0 || this.ended?.id === id || this.#expiredHolder(id) !== undefined
  }

  #expiredHolder(id: string): ClaimRecord | undefined {
    for (const record of this.expiredHolders) if (record.claim.id === id) return record
    return undefined
  }

  // ---- what changes

  change(before: ClaimRecord | undefined, after: ClaimRecord | undefined): void {
    this.changes = added(this.changes, { before, after })
  }

  notify(record: ClaimRecord, status: ClaimStatus): void {
    this.notifications = added(this.notifications, { record, status })
  }

  removeWaiter(stored: ClaimRecord): void {
    this.left = added(this.left, stored)
    this.change(stored, undefined)
  }

  removeHolder(record: ClaimRecord): void {
    this.holders = this.holders.length === 1 ? none : this.holders.filter((holder) => holder !== record)
    this.change(record, undefined)
  }

  replaceHolder(record: ClaimRecord, by: ClaimRecord): void {
    this.holders = this.holders.map((holder) => (holder === record ? by : holder))
  }

  /** Ends a waiter for this reason, and notifies its owner; not if it expired, which its owner knows by itself. */
  dropWaiter(stored: ClaimRecord, reason: AbsentReason): void {
    if (stored === this.subject) return this.dropSubject(reason)
    this.removeWaiter(stored)
    if (reason !== 'expired') this.notify(stored, { state: 'absent', reason })
  }

  dropSubject(reason: AbsentReason): void {
    if (this.subjectBefore !== undefined) this.removeWaiter(this.subjectBefore)
    this.subject = undefined
    this.#dropReason = reason
  }

  /** Stores the asking claim as it was decided, and answers with its status. */
  settleSubject(): ClaimStatus {
    const { subject } = this
    if (subject === undefined) return { state: 'absent', reason: this.#dropReason ?? 'unknown' }
    if (subject.state === 'waiting' && !subject.claim.wait) return { state: 'absent', reason: 'refused' }
    if (subject !== this.subjectBefore) this.change(this.subjectBefore, subject)
    return this.claimStatusOf(subject)
  }

  // ---- answers

  claimStatusOf(record: ClaimRecord): ClaimStatus {
    const ttlMs = record.expiresAt - this.now
    if (record.state === 'waiting') {
      const ahead = this.#ahead(record)
      return { state: 'waiting', ahead, ttlMs, againMs: ahead > 0 ? ttlMs : this.#againMs(record, ttlMs) }
    }
    return { state: 'held', fence: record.fence, ttlMs, leaving: record.leaving, after: record.after }
  }

  #ahead(record: ClaimRecord): number {
    let ahead = this.view.ahead(record)
    for (const gone of this.left) if (compareRank(gone, record) < 0) ahead -= 1
    return ahead
  }

  /** When the first holder in the way is over, or may be evicted as stale. */
  #againMs(record: ClaimRecord, atMost: number): number {
    let again = atMost
    for (const holder of this.holders) {
      if (!overlaps(holder.claim, record.claim)) continue
      again = Math.min(again, holder.expiresAt + holder.claim.graceMs - this.now)
      if (record.claim.evict === 'stale') {
        again = Math.min(again, holder.lastHeartbeat + (record.claim.staleMs ?? record.claim.ttlMs) - this.now)
      }
    }
    return Math.max(1, again)
  }

  /** The answer for a claim that is not stored: what is known of its end. */
  absent(id: string): ClaimStatus {
    const expired = this.#expiredHolder(id)
    if (expired !== undefined) return { state: 'absent', reason: absentReason(howEnded(expired)) }
    if (this.left[0]?.claim.id === id) return { state: 'absent', reason: 'expired' }
    const { ended } = this
    if (ended?.id !== id) return { state: 'absent', reason: 'unknown' }
    const reason = absentReason(ended.how)
    return ended.detail === undefined ? { state: 'absent', reason } : { state: 'absent', reason, detail: ended.detail }
  }
}

/** A draft's lists before anything is in them. Never changed: see {@link added}. */
export const none: never[] = []

/** The list with one more item. Nearly all lists stay empty or get one item, for which `push` would reserve room for 17. */
export function added<Item>(list: Item[], item: Item): Item[] {
  if (list.length === 0) return [item]
  list.push(item)
  return list
}
