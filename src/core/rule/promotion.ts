import { compareRank, copyRecord, type ClaimRecord, capByMaxHold, judge } from './claim-record.ts'
import { holdsUpEverybody, roomFor, standsInTheWay, overlaps } from './conflict.ts'
import type { AbsentReason, Succession, Claim } from '../contract/driver.ts'
import { nextFence } from './fence.ts'
import { added, none, type KeyDraft } from './draft.ts'

/** Walks the queue, the asking claim in its place, and grants what conflicts with no holder and no waiter ahead. */
export function promote(draft: KeyDraft): void {
  // A granted conversion leaves a place that a waiter already passed may have waited for.
  while (new Walk(draft).run() === 'once more');
}

/** Makes a waiter, or a newcomer, a holder. */
export function grant(draft: KeyDraft, waiter: ClaimRecord): void {
  const { now } = draft
  const { replaces, maxHoldMs } = waiter.claim
  const replaced = replaces === undefined ? undefined : draft.holders.find((holder) => holder.claim.id === replaces)
  if (replaced !== undefined) draft.removeHolder(replaced)
  draft.lastFence = nextFence(draft.lastFence, draft.view.fenceFloor)
  const granted = copyRecord(waiter)
  granted.state = 'held'
  granted.fence = draft.lastFence
  granted.acquiredAt = now
  // Promotion does not restart the lease: a waiter that died must not block for longer than its ttl.
  if (replaced !== undefined && waiter.claim.wait && replaced.expiresAt > waiter.expiresAt) {
    // Until its owner hears of the grant, it trusts the lease that it had.
    granted.expiresAt = replaced.expiresAt
    granted.ttlMs = replaced.ttlMs
  }
  granted.expiresAt = capByMaxHold(granted.expiresAt, now, maxHoldMs)
  granted.after = successionFor(draft, waiter)
  draft.holders = draft.holders.length === 0 ? [granted] : [...draft.holders, granted]
  if (draft.subject?.claim.id === waiter.claim.id) {
    draft.subject = granted
    return
  }
  draft.left = added(draft.left, waiter)
  draft.change(waiter, granted)
  draft.notify(granted, draft.claimStatusOf(granted))
}

/** How the last holder ended, told to the first holder after it. */
function successionFor(draft: KeyDraft, waiter: ClaimRecord): Succession | undefined {
  const { ended } = draft
  if (ended === undefined || ended.told || ended.id === waiter.claim.replaces) return undefined
  draft.ended = { ...ended, told: true }
  return { how: ended.how, fence: ended.fence, runner: ended.runner }
}

/** One walk along the queue. */
class Walk {
  readonly #draft: KeyDraft
  /** Waiters passed so far that must go on waiting. */
  #blocked: ClaimRecord[] = none
  #onceMore = false

  constructor(draft: KeyDraft) {
    this.#draft = draft
  }

  run(): 'done' | 'once more' {
    this.#walk()
    return this.#onceMore ? 'once more' : 'done'
  }

  #walk(): void {
    const draft = this.#draft
    if (heldAlone(draft)) return
    const { subject, left } = draft
    let newcomer = subject?.state === 'waiting' ? subject : undefined
    // Before the first walk at most the asking claim has left, and a walk passes no waiter twice.
    const gone = left.length > 1 ? new Set(left.map(({ claim }) => claim.id)) : undefined
    const firstGone = left[0]?.claim.id
    for (const stored of draft.view.waiters()) {
      if (newcomer !== undefined && compareRank(newcomer, stored) <= 0) {
        if (this.#offer(newcomer) === 'stop') return
        newcomer = undefined
      }
      const { id } = stored.claim
      if (id === firstGone || id === subject?.claim.id || gone?.has(id) === true) continue
      if (this.#offer(stored) === 'stop') return
    }
    if (newcomer !== undefined) this.#offer(newcomer)
  }

  /** Decides about the next waiter. `stop`: no waiter behind it can be granted, so they are not even read. */
  #offer(stored: ClaimRecord): 'stop' | 'go on' {
    const draft = this.#draft
    const waiter = stored === draft.subject ? stored : judge(stored, draft.now)
    const decision = this.#judgeWaiter(waiter)
    if (decision === 'grant') {
      grant(draft, waiter)
      this.#onceMore ||= waiter.claim.replaces !== undefined && this.#blocked.length > 0
      return heldAlone(draft) ? 'stop' : 'go on'
    }
    if (decision !== 'wait') {
      draft.dropWaiter(stored, decision)
      return 'go on'
    }
    if (!waiter.claim.wait) {
      // A claim that does not wait leaves at once, and blocks no waiter behind it.
      draft.dropSubject('refused')
      return 'go on'
    }
    this.#blocked = added(this.#blocked, waiter)
    // Store the cut: cut anew at every reading, a dead waiter would live until the clock has caught up.
    if (waiter !== stored) draft.change(stored, waiter)
    return holdsUpEverybody(waiter.claim) ? 'stop' : 'go on'
  }

  #judgeWaiter(waiter: ClaimRecord): 'grant' | 'wait' | AbsentReason {
    const draft = this.#draft
    if (draft.now >= waiter.expiresAt) return 'expired'
    // A conversion ends with the lease that it was to replace.
    if (waiter.claim.replaces !== undefined && !draft.holds(waiter.claim.replaces)) return 'expired'
    for (const ahead of this.#blocked) if (standsInTheWay(ahead.claim, waiter.claim)) return 'wait'
    const room = roomFor(waiter.claim, draft.holders)
    return room === 'none' ? 'wait' : room === 'mismatch' ? 'mismatch' : 'grant'
  }
}

/** An exclusive holder of the whole key is the only holder, so looking at the first is enough. */
function heldAlone(draft: KeyDraft): boolean {
  const first = draft.holders[0]?.claim
  return first !== undefined && first.mode === 'exclusive' && first.range === undefined
}

/** Applies a claim's evict rule to the holders in its way. `taken`: the claim takes their place, ahead of all waiters. */
export function applyEvictRule(draft: KeyDraft, claim: Claim): 'taken' | 'queue' {
  switch (claim.evict) {
    case undefined:
      return 'queue'
    case 'lower-priority':
      for (const holder of makeRoom(draft, claim, ({ claim: held }) => held.priority < claim.priority))
        askToLeave(draft, holder)
      return 'queue'
    case 'stale': {
      const silentSince = draft.now - (claim.staleMs ?? claim.ttlMs)
      evictAll(
        draft,
        makeRoom(draft, claim, (holder) => holder.lastHeartbeat <= silentSince),
        'stale',
      )
      return 'queue'
    }
    case 'same-runner': {
      const own = makeRoom(draft, claim, (holder) => holder.claim.runner.id === claim.runner.id)
      evictAll(draft, own, 'reclaimed')
      return own.length > 0 ? 'taken' : 'queue'
    }
    case 'all':
      evictAll(
        draft,
        makeRoom(draft, claim, () => true),
        'forced',
      )
      return 'taken'
  }
}

/** Ends a holder at once, against its will. */
export function evictHolder(draft: KeyDraft, holder: ClaimRecord, detail: string): void {
  draft.removeHolder(holder)
  draft.noteEnd(holder, 'evicted', detail)
  draft.notify(holder, { state: 'absent', reason: 'evicted', detail })
}

function evictAll(draft: KeyDraft, holders: readonly ClaimRecord[], detail: string): void {
  for (const holder of holders) evictHolder(draft, holder, detail)
}

/** Stops a holder's renewals, unless its lease is over already. */
function askToLeave(draft: KeyDraft, holder: ClaimRecord): void {
  if (holder.leaving !== undefined || draft.now >= holder.expiresAt) return
  const leaving: ClaimRecord = { ...holder, leaving: 'preempted' }
  draft.replaceHolder(holder, leaving)
  draft.change(holder, leaving)
  draft.notify(leaving, draft.claimStatusOf(leaving))
}

/**
 * The fewest eligible holders without whom the claim would fit, lowest priority and oldest first. None if the claim fits
 * already, or would not fit even without all of them.
 */
function makeRoom(draft: KeyDraft, claim: Claim, eligible: (holder: ClaimRecord) => boolean): readonly ClaimRecord[] {
  const candidates = draft.holders
    .filter((holder) => holder.claim.id !== claim.replaces && overlaps(holder.claim, claim) && eligible(holder))
    .toSorted((first, second) => first.claim.priority - second.claim.priority || first.fence - second.fence)
  const staying = new Set(draft.holders)
  const leaving: ClaimRecord[] = []
  for (const candidate of candidates) {
    if (roomFor(claim, staying) === 'room') break
    staying.delete(candidate)
    leaving.push(candidate)
  }
  return roomFor(claim, staying) === 'room' ? leaving : []
}
