/**
 * Who may hold a key: the whole rule, as one pure function.
 *
 * `admit` takes a key's claims, one request and the store's clock, and decides what changes, the status of the asking
 * claim, and which other claims are notified. Embedded stores call it inside a transaction and document stores around a
 * compare-and-swap. The copies of it in Lua (`redis/lua/`) and SQL (`postgres/functions/`) have the same names, part by
 * part; the model test of `leasehold/testing` holds them equal.
 *
 * Every request goes the same way: holders whose time is over leave, the request is carried out on a draft (`draft.ts`),
 * and waiters are promoted (`promotion.ts`). How leases end is in `claim-record.ts`.
 */
import {
  absentReason,
  copyRecord,
  type ClaimRecord,
  capByMaxHold,
  howEnded,
  type KeyView,
  type Decision,
} from './claim-record.ts'
import { overlaps, roomFor } from './conflict.ts'
import type { Claim, Request, ClaimStatus } from '../contract/driver.ts'
import { KeyDraft } from './draft.ts'
import { applyEvictRule, evictHolder, grant, promote } from './promotion.ts'

export type { RecordChange, KeyView, NotifiedClaim, Decision } from './claim-record.ts'

/** Carries out one request on a key at the store's time `now`, in whole milliseconds. */
export function admit(view: KeyView, request: Request, now: number): Decision {
  const draft = new KeyDraft(view, now)
  draft.settleHolders(request.op === 'renew' ? request.id : undefined)
  const status = carryOut(draft, request)
  return {
    status,
    changes: draft.changes,
    notifications: draft.notifications,
    lastFence: draft.lastFence,
    ended: draft.ended,
  }
}

function carryOut(draft: KeyDraft, request: Request): ClaimStatus {
  switch (request.op) {
    case 'claim':
      return claimPlace(draft, request.claim)
    case 'renew':
      return renew(draft, request)
    case 'release':
      return release(draft, request.id)
    case 'withdraw':
      return withdraw(draft, request.id)
    case 'evict':
      return evictFence(draft, request.fence, request.reason)
  }
}

// ---- claim

function claimPlace(draft: KeyDraft, claim: Claim): ClaimStatus {
  const known = draft.find(claim.id)
  if (known !== undefined) return askAgain(draft, known)
  // A late copy of a claim that has ended does not begin it anew.
  if (draft.hasEnded(claim.id)) return answerAbsent(draft, claim.id)
  const refusal = refuseConversion(draft, claim)
  if (refusal !== undefined) {
    promote(draft)
    return refusal
  }
  const newcomer = waiterFor(claim, draft.view.nextOrder(), draft.now)
  draft.subject = newcomer
  const place = applyEvictRule(draft, claim)
  // A conversion that fits beside the other holders is granted at once: its owner ranks before every waiter already.
  const converts = claim.replaces !== undefined && roomFor(claim, draft.holders) === 'room'
  if (place === 'taken' || converts) grant(draft, newcomer)
  promote(draft)
  return draft.settleSubject()
}

function waiterFor(claim: Claim, order: number, now: number): ClaimRecord {
  return {
    claim,
    state: 'waiting',
    order,
    fence: 0,
    ttlMs: claim.ttlMs,
    detached: claim.detached ?? false,
    enteredAt: now,
    acquiredAt: 0,
    lastHeartbeat: now,
    renewalCount: 0,
    expiresAt: now + claim.ttlMs,
    // Named though undefined: a record that gets more fields when it is granted is much slower to copy.
    leaving: undefined,
    after: undefined,
    died: undefined,
  }
}

/** A claim that is sent twice is answered with its status by now. */
function askAgain(draft: KeyDraft, known: ClaimRecord): ClaimStatus {
  if (known.state === 'held') {
    const over = draft.now >= known.expiresAt
    return unlessReplaced(draft, known.claim.id, over ? overForOwner(known) : draft.claimStatusOf(known))
  }
  draft.subjectBefore = known
  draft.subject = known
  promote(draft)
  return draft.settleSubject()
}

/** Refuses a conversion that has no lease to convert, or that would wait for a conversion that waits for it. */
function refuseConversion(draft: KeyDraft, claim: Claim): ClaimStatus | undefined {
  if (claim.replaces === undefined) return undefined
  if (!draft.holds(claim.replaces)) return { state: 'absent', reason: 'unknown' }
  for (const waiter of draft.view.waiters()) {
    // Conversions rank first: the first other claim ends the search.
    if (waiter.claim.replaces === undefined) break
    if (draft.now >= waiter.expiresAt || waiter.died === true) continue
    const held = draft.holders.find((holder) => holder.claim.id === waiter.claim.replaces)
    if (held === undefined || draft.now >= held.expiresAt) continue
    // Each would wait for the other's lease, unless this one fits beside all holders.
    const meet = overlaps(waiter.claim, claim) || overlaps(held.claim, claim)
    if (meet && roomFor(claim, draft.holders) !== 'room') return { state: 'absent', reason: 'deadlock' }
  }
  return undefined
}

// ---- renew

function renew(draft: KeyDraft, request: Extract<Request, { op: 'renew' }>): ClaimStatus {
  const record = draft.find(request.id)
  if (record === undefined) return answerAbsent(draft, request.id)
  if (record.state === 'held') return unlessReplaced(draft, request.id, renewHolder(draft, record, request))
  if (request.fenceFloor !== undefined) draft.lastFence = Math.max(draft.lastFence, request.fenceFloor)
  const renewed = renewedRecord(record, request, draft.now)
  draft.subjectBefore = record
  draft.subject = renewed
  const { replaces } = record.claim
  if (replaces !== undefined && !draft.holds(replaces)) draft.dropSubject('expired')
  else if (applyEvictRule(draft, record.claim) === 'taken') grant(draft, renewed)
  promote(draft)
  return draft.settleSubject()
}

function renewHolder(draft: KeyDraft, record: ClaimRecord, request: Extract<Request, { op: 'renew' }>): ClaimStatus {
  const { now } = draft
  if (now >= record.expiresAt) return overForOwner(record)
  const fence = Math.max(record.fence, request.fenceFloor ?? 0)
  draft.lastFence = Math.max(draft.lastFence, fence)
  // A holder that was asked to leave keeps its lease and is not given more.
  const renewed = record.leaving === undefined ? renewedRecord(record, request, now) : copyRecord(record)
  renewed.fence = fence
  draft.replaceHolder(record, renewed)
  draft.change(record, renewed)
  return draft.claimStatusOf(renewed)
}

/** The record with a whole ttl from now on, or what the longest hold leaves of it. */
function renewedRecord(
  record: ClaimRecord,
  request: Extract<Request, { op: 'renew' }>,
  now: number,
): ReturnType<typeof copyRecord> {
  const renewed = copyRecord(record)
  const { maxHoldMs } = record.claim
  renewed.ttlMs = request.ttlMs
  renewed.detached = request.detached ?? record.detached
  renewed.lastHeartbeat = now
  renewed.renewalCount = record.renewalCount + 1
  const expiresAt = now + request.ttlMs
  renewed.expiresAt = record.state === 'held' ? capByMaxHold(expiresAt, record.acquiredAt, maxHoldMs) : expiresAt
  return renewed
}

// ---- release, withdraw and evict

function release(draft: KeyDraft, id: string): ClaimStatus {
  const record = draft.find(id)
  return record === undefined ? answerAbsent(draft, id) : letGo(draft, record)
}

/** Ends a waiting claim. A claim that is held by now stays, and is answered as such. */
function withdraw(draft: KeyDraft, id: string): ClaimStatus {
  const record = draft.find(id)
  if (record === undefined) return answerAbsent(draft, id)
  return record.state === 'held' ? askAgain(draft, record) : letGo(draft, record)
}

function letGo(draft: KeyDraft, record: ClaimRecord): ClaimStatus {
  if (record.state === 'held') draft.removeHolder(record)
  else draft.removeWaiter(record)
  promote(draft)
  return draft.now >= record.expiresAt ? overForOwner(record) : { state: 'absent', reason: 'released' }
}

function evictFence(draft: KeyDraft, fence: number, reason: string): ClaimStatus {
  const record = draft.holders.find((holder) => holder.fence === fence)
  if (record !== undefined) evictHolder(draft, record, reason)
  promote(draft)
  return record === undefined
    ? { state: 'absent', reason: 'unknown' }
    : { state: 'absent', reason: 'evicted', detail: reason }
}

// ---- answers

/** In its grace a claim is over for its owner, and still blocks others. */
function overForOwner(record: ClaimRecord): ClaimStatus {
  return { state: 'absent', reason: absentReason(howEnded(record)) }
}

/** Promotes waiters. If that granted the conversion of this very holder, the claim no longer holds. */
function unlessReplaced(draft: KeyDraft, id: string, status: ClaimStatus): ClaimStatus {
  promote(draft)
  return status.state === 'held' && !draft.holds(id) ? { state: 'absent', reason: 'unknown' } : status
}

/** The answer for a claim that is not stored. Waiters are promoted all the same. */
function answerAbsent(draft: KeyDraft, id: string): ClaimStatus {
  const status = draft.absent(id)
  promote(draft)
  return status
}
