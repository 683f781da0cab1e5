/**
 * Who may hold a key: the whole rule, as one pure function.
 *
 * `admit` takes a key's claims, one request and the store's clock, and decides what changes, the status of the asking
 * claim, and which other claims are notified. Embedded stores call it inside a transaction and document stores around a
 * compare-and-swap. The copies of it in Lua (`redis/lua/`) and SQL (`postgres/functions/`) have the same names, part by
 * part; the model test of `leasehold/testing` holds them equal.
 *
 * Renewing a holder concerns that holder alone. Every other request goes the same way: holders whose time is over leave, the
 * request is carried out on a draft (`draft.ts`), and waiters are promoted (`promotion.ts`). How leases end is in
 * `claim-record.ts`.
 */
import {
  absentReason,
  copyRecord,
  type ClaimRecord,
  capByMaxHold,
  howEnded,
  judge,
  type KeyView,
  type Decision,
} from './claim-record.ts'
import { overlaps } from './conflict.ts'
import type { Claim, Request, ClaimStatus } from '../contract/driver.ts'
import { KeyDraft, revived } from './draft.ts'
import { applyEvictRule, evictHolder, grant, promote } from './promotion.ts'

export type { RecordChange, KeyView, NotifiedClaim, Decision } from './claim-record.ts'

/** Carries out one request on a key at the store's time `now`, in whole milliseconds. */
export function admit(view: KeyView, request: Request, now: number): Decision {
  const draft = new KeyDraft(view, now)
  return {
    status: renewAlone(draft, request) ?? settleAndCarryOut(draft, request),
    changes: draft.changes,
    notifications: draft.notifications,
    lastFence: draft.lastFence,
    ended: draft.ended,
  }
}

function settleAndCarryOut(draft: KeyDraft, request: Request): ClaimStatus {
  draft.settleHolders(request.op === 'renew' ? request.id : undefined)
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
  const converts = claim.replaces !== undefined && draft.holders.room(claim) === 'room'
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
    const held = draft.holders.find(waiter.claim.replaces)
    if (held === undefined || draft.now >= held.expiresAt) continue
    // Each would wait for the other's lease, unless this one fits beside all holders.
    const meet = overlaps(waiter.claim, claim) || overlaps(held.claim, claim)
    if (meet && draft.holders.room(claim) !== 'room') return { state: 'absent', reason: 'deadlock' }
  }
  return undefined
}

// ---- renew

/**
 * Renews a holder whose lease is not over, and touches nothing else: a beat of n shared holders must not cost n times n. Undefined: the
 * request is no such renewal. Others' ends are found by those that wait for them.
 */
function renewAlone(draft: KeyDraft, request: Request): ClaimStatus | undefined {
  if (request.op !== 'renew') return undefined
  const stored = draft.view.find(request.id)
  if (stored?.state !== 'held') return undefined
  const record = judge(revived(stored), draft.now)
  return draft.now < record.expiresAt ? renewHolder(draft, stored, record, request) : undefined
}

function renew(draft: KeyDraft, request: Extract<Request, { op: 'renew' }>): ClaimStatus {
  const record = draft.find(request.id)
  if (record === undefined) return answerAbsent(draft, request.id)
  // In its grace: `renewAlone` renews every other holder.
  if (record.state === 'held') return unlessReplaced(draft, request.id, overForOwner(record))
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

function renewHolder(
  draft: KeyDraft,
  stored: ClaimRecord,
  record: ClaimRecord,
  request: Extract<Request, { op: 'renew' }>,
): ClaimStatus {
  const fence = Math.max(record.fence, request.fenceFloor ?? 0)
  draft.lastFence = Math.max(draft.lastFence, fence)
  // A holder that was asked to leave keeps its lease and is not given more.
  const renewed = record.leaving === undefined ? renewedRecord(record, request, draft.now) : copyRecord(record)
  renewed.fence = fence
  draft.change(stored, renewed)
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

const wholeKey = { range: undefined }

function evictFence(draft: KeyDraft, fence: number, reason: string): ClaimStatus {
  let record: ClaimRecord | undefined
  for (const holder of draft.holders.overlapping(wholeKey)) if (holder.fence === fence) record = holder
  if (record !== undefined) evictHolder(draft, record, 'operator', reason)
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
