import { compareRank, copyRecord, type ClaimRecord, capByMaxHold, judge } from './claim-record.ts'
import { holdsUpEverybody, standsInTheWay } from './conflict.ts'
import { roomAmong, Tallies } from './holders.ts'
import type { AbsentReason, Succession, Claim, EvictionCause } from '../contract/driver.ts'
import { nextFence } from './fence.ts'
import { LocalWalk } from './local-walk.ts'
import { claimRanges, type RangeIndex } from './range-index.ts'
import { strictnessOf } from './waiters.ts'
import { added, none, type KeyDraft } from './draft.ts'

/** Up to this many blocked waiters are compared one by one. */
const comparedMax = 16

/** Walks the queue, the asking claim in its place, and grants what conflicts with no holder and no waiter ahead. */
export function promote(draft: KeyDraft): void {
  // A granted conversion leaves a place that a waiter already passed may have waited for.
  while (new Walk(draft).run() === 'once more');
}

/** Makes a waiter, or a newcomer, a holder. */
export function grant(draft: KeyDraft, waiter: ClaimRecord): void {
  const { now } = draft
  const { replaces, maxHoldMs } = waiter.claim
  const replaced = replaces === undefined ? undefined : draft.holders.find(replaces)
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
  draft.addHolder(granted)
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
  const { how, cause, fence, runner } = ended
  return cause === undefined ? { how, fence, runner } : { how, cause, fence, runner }
}

/** One walk along the queue; where there is a crowd of waiters, only past those that may do something else than wait on. */
class Walk {
  readonly #draft: KeyDraft
  readonly #blocked = new BlockedWaiters()
  #local: LocalWalk | undefined
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
    if (draft.holders.heldAlone()) return
    const crowd = draft.hasFreedWholeKey() ? undefined : draft.view.waiterCrowd
    if (crowd !== undefined) {
      this.#local = new LocalWalk(draft, crowd)
      for (const waiter of this.#local.candidates()) if (this.#offer(waiter) === 'stop') return
      return
    }
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
      this.#onceMore ||= waiter.claim.replaces !== undefined && this.#blocked.count > 0
      return draft.holders.heldAlone() ? 'stop' : 'go on'
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
    this.#blocked.add(waiter)
    // Store the cut: cut anew at every reading, a dead waiter would live until the clock has caught up.
    if (waiter !== stored) draft.change(stored, waiter)
    return holdsUpEverybody(waiter.claim) ? 'stop' : 'go on'
  }

  #judgeWaiter(waiter: ClaimRecord): 'grant' | 'wait' | AbsentReason {
    const draft = this.#draft
    if (draft.now >= waiter.expiresAt) return 'expired'
    // A conversion ends with the lease that it was to replace.
    if (waiter.claim.replaces !== undefined && !draft.holds(waiter.claim.replaces)) return 'expired'
    if (!draft.mayMove(waiter) || this.#blocked.standInTheWayOf(waiter.claim)) return 'wait'
    if (this.#local?.holdsUp(waiter) === true) return 'wait'
    const room = draft.holders.room(waiter.claim)
    return room === 'none' ? 'wait' : room === 'mismatch' ? 'mismatch' : 'grant'
  }
}

/** The waiters that a walk has passed and that must go on waiting. Up to a few are compared one by one, more by an index. */
class BlockedWaiters {
  count = 0
  #few: ClaimRecord[] = none
  #onRanges: RangeIndex<ClaimRecord> | undefined
  /** Those that share the whole key: all others of a whole key end the walk. */
  #readers = 0
  /** Those on ranges, and of these the ones that nobody may overtake. */
  #ranged = 0
  #rangedAndStrict = 0

  add(waiter: ClaimRecord): void {
    this.count += 1
    if (this.#onRanges !== undefined) return this.#index(this.#onRanges, waiter)
    this.#few = added(this.#few, waiter)
    if (this.count <= comparedMax) return
    this.#onRanges = claimRanges()
    for (const blocked of this.#few) this.#index(this.#onRanges, blocked)
  }

  /** Whether one of them holds up a claim behind it: `standsInTheWay`. */
  standInTheWayOf(claim: Claim): boolean {
    if (this.#onRanges === undefined) return isHeldUp(claim, this.#few)
    if (this.#readers > 0 && strictnessOf(claim) === 'strict') return true
    if (claim.range === undefined)
      return strictnessOf(claim) === 'strict' ? this.#ranged > 0 : this.#rangedAndStrict > 0
    return isHeldUp(claim, this.#onRanges.overlapping(claim.range))
  }

  #index(onRanges: RangeIndex<ClaimRecord>, waiter: ClaimRecord): void {
    const { range } = waiter.claim
    if (range === undefined) this.#readers += 1
    else {
      this.#ranged += 1
      if (strictnessOf(waiter.claim) === 'strict') this.#rangedAndStrict += 1
      onRanges.add(waiter)
    }
  }
}

function isHeldUp(claim: Claim, blocked: Iterable<ClaimRecord>): boolean {
  for (const ahead of blocked) if (standsInTheWay(ahead.claim, claim)) return true
  return false
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
export function evictHolder(draft: KeyDraft, holder: ClaimRecord, cause: EvictionCause, detail: string): void {
  draft.removeHolder(holder)
  draft.noteEnd(holder, 'evicted', cause, detail)
  draft.notify(holder, { state: 'absent', reason: 'evicted', detail })
}

function evictAll(draft: KeyDraft, holders: readonly ClaimRecord[], cause: EvictionCause): void {
  for (const holder of holders) evictHolder(draft, holder, cause, cause)
}

/** Stops a holder's renewals, unless its lease is over already. */
function askToLeave(draft: KeyDraft, holder: ClaimRecord): void {
  if (holder.leaving !== undefined || draft.now >= holder.expiresAt) return
  const leaving: ClaimRecord = { ...holder, leaving: 'preempted' }
  draft.holders.replace(holder, leaving)
  draft.change(holder, leaving)
  draft.notify(leaving, draft.claimStatusOf(leaving))
}

/**
 * The fewest eligible holders without whom the claim would fit, lowest priority and oldest first. None if the claim fits
 * already, or would not fit even without all of them.
 */
function makeRoom(draft: KeyDraft, claim: Claim, eligible: (holder: ClaimRecord) => boolean): readonly ClaimRecord[] {
  const inTheWay = [...draft.holders.overlapping(claim)].filter((holder) => holder.claim.id !== claim.replaces)
  const candidates = inTheWay
    .filter(eligible)
    .toSorted((first, second) => first.claim.priority - second.claim.priority || first.fence - second.fence)
  const staying = new Tallies()
  for (const holder of inTheWay) staying.count(holder.claim, 1)
  const leaving: ClaimRecord[] = []
  for (const candidate of candidates) {
    if (roomAmong(claim, staying.all()) === 'room') break
    staying.count(candidate.claim, -1)
    leaving.push(candidate)
  }
  return roomAmong(claim, staying.all()) === 'room' ? leaving : []
}
