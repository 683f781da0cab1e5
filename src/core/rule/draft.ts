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
import type { AbsentReason, ClaimStatus, EvictionCause, Succession } from '../contract/driver.ts'
import { HolderIndex } from './holder-index.ts'
import { FewHolders, ManyHolders, type Holders } from './holders.ts'

/** No holders. Shared by all drafts, and never changed. */
const nobody: Holders = new FewHolders([])
/** A request that meets more holders than this, or grants more claims, finds conflicts by an index. */
const listMax = 16

/** The work of one request: the view of the key, and what has been decided so far. */
export class KeyDraft {
  readonly view: KeyView
  readonly now: number
  changes: RecordChange[] = none
  notifications: NotifiedClaim[] = none
  lastFence: number
  ended: Ended | undefined
  /** The holders, as decided so far. */
  holders: Holders = nobody
  /** The asking claim, kept out of `changes` until it is settled. */
  subject: ClaimRecord | undefined
  /** The asking claim as stored; undefined if it is new. */
  subjectBefore: ClaimRecord | undefined
  /** Holders whose time this request found to be over. */
  expiredHolders: ClaimRecord[] = none
  /** Waiters this request has removed or promoted. */
  left: ClaimRecord[] = none
  /** Claims that have left or been granted: only where they are can a waiter be granted that could not be before. */
  touched: ClaimRecord[] = none
  /** One of them is on the whole key, or they are many. */
  #isEverythingTouched = false
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
    const { crowd } = this.view
    const stored = crowd === undefined ? this.view.holders() : [...crowd.due(this.now)]
    if (crowd !== undefined) this.holders = new ManyHolders(crowd)
    else if (stored.length === 0) return
    else this.holders = stored.length > listMax ? new ManyHolders(new HolderIndex(stored)) : new FewHolders(stored)
    for (const holder of stored) {
      const settled = this.#settle(holder, renewing)
      if (settled === undefined) this.holders.remove(holder)
      else if (settled !== holder) this.holders.replace(holder, settled)
    }
    if (this.expiredHolders.length === 0) return
    // If several ended, remember the one that was granted last, in whatever order the store reads them.
    const last = this.expiredHolders.reduce((latest, holder) => (latest.fence > holder.fence ? latest : holder))
    this.noteEnd(last, howEnded(last))
  }

  /** The holder as it counts now; undefined if its time is over. */
  #settle(holder: ClaimRecord, renewing: string | undefined): ClaimRecord | undefined {
    const seen = holder.claim.id === renewing ? revived(holder) : holder
    const record = judge(seen, this.now)
    if (this.now < record.expiresAt + record.claim.graceMs) {
      if (record !== seen) this.change(holder, record)
      return record
    }
    this.expiredHolders = added(this.expiredHolders, record)
    this.#touch(record)
    this.change(holder, undefined)
    return undefined
  }

  /** Remembers an unclean end, for its owner and for its successor. */
  noteEnd(record: ClaimRecord, how: Succession['how'], cause?: EvictionCause, detail?: string): void {
    const { id, runner } = record.claim
    this.ended = { id, how, cause, fence: record.fence, runner, until: this.now + record.ttlMs, told: false, detail }
  }

  // ---- who is here

  /** A claim of this key, unless its time is over: then, if it waits, it is removed. */
  find(id: string): ClaimRecord | undefined {
    const holder = this.holders.find(id)
    if (holder !== undefined) return holder
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
    const holder = this.holders.find(id)
    return holder !== undefined && this.now < holder.expiresAt
  }

  /** Whether this request has found the claim to be over. */
  hasEnded(id: string): boolean {
    return this.left.length > 0 || this.ended?.id === id || this.#expiredHolder(id) !== undefined
  }

  #expiredHolder(id: string): ClaimRecord | undefined {
    for (const record of this.expiredHolders) if (record.claim.id === id) return record
    return undefined
  }

  /**
   * Whether a waiter may be granted that could not be before: it asks now, or it overlaps a claim that has left or been granted. All
   * others still wait for what they waited for when the last request ended.
   */
  mayMove(waiter: ClaimRecord): boolean {
    if (this.#isEverythingTouched || waiter === this.subject) return true
    for (const { claim } of this.touched) if (overlaps(claim, waiter.claim)) return true
    return false
  }

  /** Whether a holder of the whole key has left or come, so that every waiter may move. */
  hasFreedWholeKey(): boolean {
    if (!this.#isEverythingTouched) return false
    return this.touched.some(({ state, claim }) => state === 'held' && claim.range === undefined)
  }

  #touch(record: ClaimRecord): void {
    this.touched = added(this.touched, record)
    if (record.claim.range === undefined || this.touched.length > listMax) this.#isEverythingTouched = true
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
    this.#touch(stored)
    this.change(stored, undefined)
  }

  removeHolder(record: ClaimRecord): void {
    this.holders.remove(record)
    this.#touch(record)
    this.change(record, undefined)
  }

  addHolder(record: ClaimRecord): void {
    this.#touch(record)
    // Until there is a holder, all drafts share an empty list.
    if (this.holders === nobody) this.holders = new FewHolders([record])
    else {
      if (this.holders instanceof FewHolders && this.holders.records.length >= listMax) {
        this.holders = new ManyHolders(new HolderIndex(this.holders.records))
      }
      this.holders.add(record)
    }
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
    let again = Math.min(atMost, this.holders.firstEnd(record.claim) - this.now)
    if (record.claim.evict === 'stale') {
      const staleMs = record.claim.staleMs ?? record.claim.ttlMs
      for (const { lastHeartbeat } of this.holders.overlapping(record.claim)) {
        again = Math.min(again, lastHeartbeat + staleMs - this.now)
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

/** The holder for whoever renews it: alive, even if the store saw the process end that held it before. */
export function revived(holder: ClaimRecord): ClaimRecord {
  return holder.died === true ? { ...holder, died: undefined } : holder
}

/** A draft's lists before anything is in them. Never changed: see {@link added}. */
export const none: never[] = []

/** The list with one more item. Nearly all lists stay empty or get one item, for which `push` would reserve room for 17. */
export function added<Item>(list: Item[], item: Item): Item[] {
  if (list.length === 0) return [item]
  list.push(item)
  return list
}
