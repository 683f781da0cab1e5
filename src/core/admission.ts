/**
 * Who may hold a key: the whole rule, as one pure function.
 *
 * `admit` looks at a key's claims, one request and the store's clock, and says what changes, how the asking claim stands
 * now, and whom else that concerns. Embedded stores call it inside a transaction and document stores around a
 * compare-and-swap; copies of it in Lua or SQL are held equal by the model test of `leasehold/testing`.
 */
import { absentReason, compareRank, type ClaimRecord, type Ended } from './claim-record.ts'
import { excludes, overlaps, standsInTheWay } from './conflict.ts'
import type { AbsentReason, Claim, Request, Standing, Succession } from './driver.ts'
import { nextFence } from './fence.ts'

/** A key's claims, read only as far as the rule needs: a release must not decode ten thousand waiters. */
export interface KeyView {
  /** The last fence minted here; 0 if none is known. */
  readonly lastFence: number
  /** The least the next fence may be: the wall clock in microseconds where `lastFence` may have been lost, else 0. */
  readonly fenceFloor: number
  readonly ended: Ended | undefined
  holders(): readonly ClaimRecord[]
  /** In the order of `compareRank`. */
  waiters(): Iterable<ClaimRecord>
  find(id: string): ClaimRecord | undefined
  /** How many stored waiters rank before this record, which may itself not be stored yet. */
  ahead(record: ClaimRecord): number
  /** A number above the `order` of every claim this key has had since it was last empty. */
  nextOrder(): number
}

/** One step to carry out in the store. A record without `before` is new; without `after` it is removed. */
export interface Change {
  readonly before: ClaimRecord | undefined
  readonly after: ClaimRecord | undefined
}

/** A claim, not the asking one, whose owner should hear how it stands now. */
export interface News {
  readonly record: ClaimRecord
  readonly standing: Standing
}

export interface Verdict {
  readonly standing: Standing
  readonly changes: readonly Change[]
  readonly news: readonly News[]
  /** Store these with the key. */
  readonly lastFence: number
  readonly ended: Ended | undefined
}

/** Carries out one request on a key at the store's time `now`, in whole milliseconds. */
export function admit(view: KeyView, request: Request, now: number): Verdict {
  const step = new Step(view, now)
  const standing = step.carryOut(request)
  return { standing, changes: step.changes, news: step.news, lastFence: step.lastFence, ended: step.ended }
}

/** The work of one request: the view plus what has been decided so far. */
class Step {
  changes: Change[] = none
  news: News[] = none
  lastFence: number
  ended: Ended | undefined
  readonly #view: KeyView
  readonly #now: number
  /** Those who hold, as decided so far. */
  #holders: readonly ClaimRecord[] = none
  /** The asking claim, kept out of `changes` until it stands still. */
  #subject: ClaimRecord | undefined
  #subjectBefore: ClaimRecord | undefined
  /** Holders whose time this step found to be over. */
  #overdue: ClaimRecord[] = none
  /** Waiters this step has removed or promoted. */
  #left: ClaimRecord[] = none
  /** Waiters the walk has passed that must go on waiting. */
  #blocked: ClaimRecord[] = none
  /** A conversion left a place that somebody the walk has passed may have waited for. */
  #moved = false

  constructor(view: KeyView, now: number) {
    this.#view = view
    this.#now = now
    this.lastFence = view.lastFence
    this.ended = view.ended !== undefined && now < view.ended.until ? view.ended : undefined
  }

  carryOut(request: Request): Standing {
    // A claim that is renewed lives, whatever the store has seen of the process that held it before.
    this.#settleHolders(request.op === 'renew' ? request.id : undefined)
    switch (request.op) {
      case 'claim':
        return this.#claim(request.claim)
      case 'renew':
        return this.#renew(request.id, request.ttlMs, request.fenceFloor, request.detached)
      case 'release':
        return this.#release(request.id)
      case 'evict':
        return this.#evictFence(request.fence, request.reason)
    }
  }

  // ---- the four requests

  #claim(claim: Claim): Standing {
    const known = this.#find(claim.id)
    if (known !== undefined) return this.#askAgain(known)
    // A late copy of a claim that has ended does not begin it anew.
    const over = this.#left.length > 0 || this.ended?.id === claim.id || this.#overdueCalled(claim.id) !== undefined
    if (over) return this.#answerAbsent(claim.id)
    if (claim.replaces !== undefined) {
      const refusal = this.#refuseConversion(claim)
      if (refusal !== undefined) {
        this.#promote()
        return refusal
      }
    }
    const now = this.#now
    const newcomer: ClaimRecord = {
      claim,
      state: 'waiting',
      order: this.#view.nextOrder(),
      fence: 0,
      ttlMs: claim.ttlMs,
      detached: claim.detached ?? false,
      enteredAt: now,
      acquiredAt: 0,
      lastHeartbeat: now,
      renewalCount: 0,
      expiresAt: now + claim.ttlMs,
      leaving: undefined,
      after: undefined,
      died: undefined,
    }
    this.#subject = newcomer
    const place = this.#applyEvictRule(newcomer)
    // A conversion that fits beside the others is granted at once: its owner is in front of every waiter already.
    const converts = claim.replaces !== undefined && roomFor(claim, this.#holders) === 'room'
    if (place === 'taken' || converts) this.#grant(newcomer)
    this.#promote()
    return this.#settleSubject(claim.wait)
  }

  #renew(id: string, ttlMs: number, fenceFloor: number | undefined, detached: boolean | undefined): Standing {
    const record = this.#find(id)
    if (record === undefined) return this.#answerAbsent(id)
    if (record.state === 'held') {
      const standing = this.#renewHolder(record, ttlMs, fenceFloor, detached)
      return this.#unlessReplaced(id, standing)
    }
    if (fenceFloor !== undefined) this.lastFence = Math.max(this.lastFence, fenceFloor)
    const now = this.#now
    const renewed: ClaimRecord = {
      ...record,
      ttlMs,
      detached: detached ?? record.detached,
      lastHeartbeat: now,
      renewalCount: record.renewalCount + 1,
      expiresAt: now + ttlMs,
    }
    this.#subjectBefore = record
    this.#subject = renewed
    if (record.claim.replaces !== undefined && !this.#holds(record.claim.replaces)) this.#dropSubject('expired')
    else if (this.#applyEvictRule(renewed) === 'taken') this.#grant(renewed)
    this.#promote()
    return this.#settleSubject(true)
  }

  #renewHolder(
    record: ClaimRecord,
    ttlMs: number,
    fenceFloor: number | undefined,
    detached: boolean | undefined,
  ): Standing {
    const now = this.#now
    // In its grace a claim is over for its owner and still blocks others.
    if (now >= record.expiresAt) return { state: 'absent', reason: absentReason(this.#howEnded(record)) }
    const fence = Math.max(record.fence, fenceFloor ?? 0)
    this.lastFence = Math.max(this.lastFence, fence)
    const renewed: ClaimRecord = {
      ...record,
      fence,
      // Who was asked to leave keeps what it was promised and gets no more.
      ...(record.leaving === undefined && {
        ttlMs,
        detached: detached ?? record.detached,
        lastHeartbeat: now,
        renewalCount: record.renewalCount + 1,
        expiresAt: this.#capByMaxHold(now + ttlMs, record.acquiredAt, record.claim.maxHoldMs),
      }),
    }
    this.#replaceHolder(record, renewed)
    this.#change(record, renewed)
    return this.#standingOf(renewed)
  }

  #release(id: string): Standing {
    const record = this.#find(id)
    if (record === undefined) return this.#answerAbsent(id)
    const over = this.#now >= record.expiresAt
    if (record.state === 'held') this.#removeHolder(record)
    else this.#removeWaiter(record)
    this.#promote()
    return { state: 'absent', reason: over ? absentReason(this.#howEnded(record)) : 'released' }
  }

  #evictFence(fence: number, reason: string): Standing {
    const record = this.#holders.find((holder) => holder.fence === fence)
    if (record === undefined) {
      this.#promote()
      return { state: 'absent', reason: 'unknown' }
    }
    this.#evict(record, reason)
    this.#promote()
    return { state: 'absent', reason: 'evicted', detail: reason }
  }

  /** A claim sent twice: answer as it stands by now. */
  #askAgain(known: ClaimRecord): Standing {
    if (known.state === 'held') {
      const over = this.#now >= known.expiresAt
      const reason = absentReason(this.#howEnded(known))
      return this.#unlessReplaced(known.claim.id, over ? { state: 'absent', reason } : this.#standingOf(known))
    }
    this.#subjectBefore = known
    this.#subject = known
    this.#promote()
    return this.#settleSubject(true)
  }

  /** Lets the queue move on. That may put a holder's own conversion in its place: then it no longer holds. */
  #unlessReplaced(id: string, standing: Standing): Standing {
    this.#promote()
    return standing.state === 'held' && !this.#holds(id) ? { state: 'absent', reason: 'unknown' } : standing
  }

  // ---- time

  /** Ends holders whose time is over and cuts leases that a clock set back would have stretched. */
  #settleHolders(renewing: string | undefined): void {
    const stored = this.#view.holders()
    if (stored.length === 0) return
    this.#holders = stored
    for (const holder of stored) {
      const settled = this.#settle(holder, renewing)
      if (settled === undefined) this.#holders = this.#holders.filter((one) => one !== holder)
      else if (settled !== holder) this.#replaceHolder(holder, settled)
    }
    if (this.#overdue.length === 0) return
    // Of several ends the latest grant is remembered, in whatever order the store reads them.
    const last = this.#overdue.reduce((one, other) => (one.fence > other.fence ? one : other))
    this.#noteEnd(last, this.#howEnded(last))
  }

  /** The holder as it counts now; undefined if its time is over. */
  #settle(holder: ClaimRecord, renewing: string | undefined): ClaimRecord | undefined {
    const revived = holder.died === true && holder.claim.id === renewing ? { ...holder, died: undefined } : holder
    const record = this.#judge(revived)
    if (this.#now < record.expiresAt + record.claim.graceMs) {
      if (record !== revived) this.#change(holder, record)
      return record
    }
    this.#overdue = added(this.#overdue, record)
    this.#change(holder, undefined)
    return undefined
  }

  #overdueCalled(id: string): ClaimRecord | undefined {
    for (const record of this.#overdue) if (record.claim.id === id) return record
    return undefined
  }

  /** The record as it counts now: a dead process's lease ends, one with more than its ttl left is cut to its ttl. */
  #judge(record: ClaimRecord): ClaimRecord {
    const now = this.#now
    if (record.died === true && record.expiresAt > now) return { ...record, expiresAt: now }
    if (record.expiresAt - now <= record.ttlMs) return record
    const acquiredAt = Math.min(record.acquiredAt, now)
    const end = now + record.ttlMs
    return {
      ...record,
      expiresAt: record.state === 'held' ? this.#capByMaxHold(end, acquiredAt, record.claim.maxHoldMs) : end,
      acquiredAt,
      lastHeartbeat: Math.min(record.lastHeartbeat, now),
    }
  }

  #howEnded(record: ClaimRecord): Succession['how'] {
    if (record.died === true) return 'died'
    const { maxHoldMs } = record.claim
    return maxHoldMs !== undefined && record.expiresAt >= record.acquiredAt + maxHoldMs ? 'max-hold' : 'expired'
  }

  #capByMaxHold(end: number, acquiredAt: number, maxHoldMs: number | undefined): number {
    return maxHoldMs === undefined ? end : Math.min(end, acquiredAt + maxHoldMs)
  }

  // ---- letting in

  /** Walks the queue, the asking claim in its place, and grants what conflicts with no holder and nobody ahead. */
  #promote(): void {
    do {
      this.#moved = false
      this.#blocked = none
      this.#walk()
    } while (this.#moved)
  }

  #walk(): void {
    if (this.#heldAlone()) return
    const subject = this.#subject
    let newcomer = subject?.state === 'waiting' ? subject : undefined
    // At most the asking claim has left before the first walk begins, and a walk passes nobody twice.
    const left = this.#left.length > 1 ? new Set(this.#left.map(({ claim }) => claim.id)) : undefined
    const gone = this.#left[0]?.claim.id
    for (const stored of this.#view.waiters()) {
      if (newcomer !== undefined && compareRank(newcomer, stored) <= 0) {
        if (this.#offer(newcomer) === 'stop') return
        newcomer = undefined
      }
      const { id } = stored.claim
      if (id === gone || id === subject?.claim.id || left?.has(id) === true) continue
      if (this.#offer(stored) === 'stop') return
    }
    if (newcomer !== undefined) this.#offer(newcomer)
  }

  /** Looks at the next in line. `stop`: nobody behind can be let in, so do not even read them. */
  #offer(stored: ClaimRecord): 'stop' | 'go on' {
    const waiter = stored === this.#subject ? stored : this.#judge(stored)
    const verdict = this.#judgeWaiter(waiter)
    if (verdict === 'grant') {
      this.#grant(waiter)
      return this.#heldAlone() ? 'stop' : 'go on'
    }
    if (verdict === 'wait' && !waiter.claim.wait) {
      // Who would not wait is gone again, and holds up nobody behind.
      this.#dropSubject('refused')
      return 'go on'
    }
    if (verdict === 'wait') {
      this.#blocked = added(this.#blocked, waiter)
      // Cut once and for all: cut anew at every look, a dead waiter would live until the clock has caught up.
      if (waiter !== stored) this.#change(stored, waiter)
      return holdsUpEverybody(waiter.claim) ? 'stop' : 'go on'
    }
    this.#dropWaiter(stored, verdict)
    return 'go on'
  }

  #judgeWaiter(waiter: ClaimRecord): 'grant' | 'wait' | AbsentReason {
    if (this.#now >= waiter.expiresAt) return 'expired'
    if (waiter.claim.replaces !== undefined && !this.#holds(waiter.claim.replaces)) return 'expired'
    for (const ahead of this.#blocked) if (standsInTheWay(ahead.claim, waiter.claim)) return 'wait'
    const room = roomFor(waiter.claim, this.#holders)
    return room === 'none' ? 'wait' : room === 'mismatch' ? 'mismatch' : 'grant'
  }

  #heldAlone(): boolean {
    const first = this.#holders[0]
    // Beside an exclusive holder of the whole key there is no other, so the first tells.
    return first !== undefined && first.claim.mode === 'exclusive' && first.claim.range === undefined
  }

  #grant(waiter: ClaimRecord): void {
    const now = this.#now
    if (waiter.claim.replaces !== undefined) {
      const replaced = this.#holders.find((holder) => holder.claim.id === waiter.claim.replaces)
      if (replaced !== undefined) this.#removeHolder(replaced)
      this.#moved = this.#blocked.length > 0
    }
    this.lastFence = nextFence(this.lastFence, this.#view.fenceFloor)
    const after = this.#successionFor(waiter)
    const granted: ClaimRecord = {
      ...waiter,
      state: 'held',
      fence: this.lastFence,
      acquiredAt: now,
      // Promotion does not restart the lease: a waiter that died must not block for longer than it was told.
      expiresAt: this.#capByMaxHold(waiter.expiresAt, now, waiter.claim.maxHoldMs),
      after,
    }
    this.#holders = this.#holders.length === 0 ? [granted] : [...this.#holders, granted]
    if (this.#subject?.claim.id === waiter.claim.id) {
      this.#subject = granted
      return
    }
    this.#left = added(this.#left, waiter)
    this.#change(waiter, granted)
    this.#tell(granted, this.#standingOf(granted))
  }

  #successionFor(waiter: ClaimRecord): Succession | undefined {
    const { ended } = this
    if (ended === undefined || ended.told || ended.id === waiter.claim.replaces) return undefined
    this.ended = { ...ended, told: true }
    return { how: ended.how, fence: ended.fence, runner: ended.runner }
  }

  // ---- taking away

  /** Applies a claim's own rule to those in its way. `taken`: it now has their place, whoever waits. */
  #applyEvictRule(record: ClaimRecord): 'taken' | 'queue' {
    const { claim } = record
    const rule = claim.evict
    if (rule === undefined) return 'queue'
    if (rule === 'lower-priority') {
      const inTheWay = this.#makeRoom(claim, (holder) => holder.claim.priority < claim.priority)
      for (const holder of inTheWay) if (holder.leaving === undefined) this.#askToLeave(holder)
      return 'queue'
    }
    if (rule === 'stale') {
      const silentSince = this.#now - (claim.staleMs ?? claim.ttlMs)
      for (const holder of this.#makeRoom(claim, (one) => one.lastHeartbeat <= silentSince))
        this.#evict(holder, 'stale')
      return 'queue'
    }
    if (rule === 'same-runner') {
      const own = this.#makeRoom(claim, (holder) => holder.claim.runner.id === claim.runner.id)
      for (const holder of own) this.#evict(holder, 'reclaimed')
      return own.length > 0 ? 'taken' : 'queue'
    }
    for (const holder of this.#makeRoom(claim, () => true)) this.#evict(holder, 'forced')
    return 'taken'
  }

  /**
   * The fewest eligible holders without whom the claim would fit, lowest priority and oldest first. None if it fits
   * already, or would not fit even without all of them: nobody is turned out for nothing.
   */
  #makeRoom(claim: Claim, eligible: (holder: ClaimRecord) => boolean): readonly ClaimRecord[] {
    const candidates = this.#holders
      .filter((holder) => holder.claim.id !== claim.replaces && overlaps(holder.claim, claim) && eligible(holder))
      .toSorted((one, other) => one.claim.priority - other.claim.priority || one.fence - other.fence)
    const staying = new Set(this.#holders)
    const leaving: ClaimRecord[] = []
    for (const candidate of candidates) {
      if (roomFor(claim, staying) === 'room') break
      staying.delete(candidate)
      leaving.push(candidate)
    }
    return roomFor(claim, staying) === 'room' ? leaving : []
  }

  #askToLeave(holder: ClaimRecord): void {
    const leaving: ClaimRecord = { ...holder, leaving: 'preempted' }
    this.#replaceHolder(holder, leaving)
    this.#change(holder, leaving)
    this.#tell(leaving, this.#standingOf(leaving))
  }

  #evict(holder: ClaimRecord, detail: string): void {
    this.#removeHolder(holder)
    this.#noteEnd(holder, 'evicted', detail)
    this.#tell(holder, { state: 'absent', reason: 'evicted', detail })
  }

  #noteEnd(record: ClaimRecord, how: Succession['how'], detail?: string): void {
    const { id, runner } = record.claim
    const until = this.#now + record.ttlMs
    this.ended = { id, how, fence: record.fence, runner, until, told: false, detail }
  }

  // ---- conversions

  #refuseConversion(claim: Claim): Standing | undefined {
    if (claim.replaces === undefined) return undefined
    if (!this.#holds(claim.replaces)) return { state: 'absent', reason: 'unknown' }
    for (const waiter of this.#view.waiters()) {
      // Conversions stand first, so the first other claim ends the search.
      if (waiter.claim.replaces === undefined) break
      if (this.#now >= waiter.expiresAt || waiter.died === true) continue
      const held = this.#holders.find((holder) => holder.claim.id === waiter.claim.replaces)
      if (held === undefined || this.#now >= held.expiresAt) continue
      // Each would wait for the other to give up what it holds, unless this one fits beside all that is held.
      const meet = overlaps(waiter.claim, claim) || overlaps(held.claim, claim)
      if (meet && roomFor(claim, this.#holders) !== 'room') return { state: 'absent', reason: 'deadlock' }
    }
    return undefined
  }

  #holds(id: string): boolean {
    return this.#holders.some((holder) => holder.claim.id === id && this.#now < holder.expiresAt)
  }

  // ---- the draft

  #change(before: ClaimRecord | undefined, after: ClaimRecord | undefined): void {
    this.changes = added(this.changes, { before, after })
  }

  #tell(record: ClaimRecord, standing: Standing): void {
    this.news = added(this.news, { record, standing })
  }

  #find(id: string): ClaimRecord | undefined {
    for (const holder of this.#holders) if (holder.claim.id === id) return holder
    const stored = this.#view.find(id)
    if (stored === undefined || stored.state === 'held') return undefined
    const waiter = this.#judge(stored)
    if (this.#now < waiter.expiresAt) {
      if (waiter !== stored) this.#change(stored, waiter)
      return waiter
    }
    this.#removeWaiter(stored)
    return undefined
  }

  #dropWaiter(stored: ClaimRecord, reason: AbsentReason): void {
    if (stored === this.#subject) {
      this.#dropSubject(reason)
      return
    }
    this.#removeWaiter(stored)
    if (reason !== 'expired') this.#tell(stored, { state: 'absent', reason })
  }

  #dropReason: AbsentReason | undefined

  #dropSubject(reason: AbsentReason): void {
    const before = this.#subjectBefore
    if (before !== undefined) this.#removeWaiter(before)
    this.#subject = undefined
    this.#dropReason = reason
  }

  #removeWaiter(stored: ClaimRecord): void {
    this.#left = added(this.#left, stored)
    this.#change(stored, undefined)
  }

  #removeHolder(record: ClaimRecord): void {
    this.#holders = this.#holders.length === 1 ? none : this.#holders.filter((holder) => holder !== record)
    this.#change(record, undefined)
  }

  #replaceHolder(record: ClaimRecord, by: ClaimRecord): void {
    this.#holders = this.#holders.map((holder) => (holder === record ? by : holder))
  }

  /** Writes down where the asking claim came to stand. */
  #settleSubject(mayWait: boolean): Standing {
    const subject = this.#subject
    if (subject === undefined) return { state: 'absent', reason: this.#dropReason ?? 'unknown' }
    if (subject.state === 'waiting' && !mayWait) return { state: 'absent', reason: 'refused' }
    if (subject !== this.#subjectBefore) this.#change(this.#subjectBefore, subject)
    return this.#standingOf(subject)
  }

  // ---- answers

  #standingOf(record: ClaimRecord): Standing {
    const ttlMs = record.expiresAt - this.#now
    if (record.state === 'waiting') {
      const ahead = this.#ahead(record)
      return { state: 'waiting', ahead, ttlMs, againMs: ahead > 0 ? ttlMs : this.#againMs(record, ttlMs) }
    }
    return { state: 'held', fence: record.fence, ttlMs, leaving: record.leaving, after: record.after }
  }

  #ahead(record: ClaimRecord): number {
    let ahead = this.#view.ahead(record)
    for (const gone of this.#left) if (compareRank(gone, record) < 0) ahead -= 1
    return ahead
  }

  /** When the first of those in the way must be gone, or may be taken for stale. */
  #againMs(record: ClaimRecord, atMost: number): number {
    let again = atMost
    for (const holder of this.#holders) {
      if (!overlaps(holder.claim, record.claim)) continue
      again = Math.min(again, holder.expiresAt + holder.claim.graceMs - this.#now)
      if (record.claim.evict === 'stale') {
        again = Math.min(again, holder.lastHeartbeat + (record.claim.staleMs ?? record.claim.ttlMs) - this.#now)
      }
    }
    return Math.max(1, again)
  }

  /** For a claim that is not there: what is remembered of its end. The queue moves on all the same. */
  #answerAbsent(id: string): Standing {
    const { ended } = this
    const expired = this.#left[0]?.claim.id === id
    const overdue = this.#overdueCalled(id)
    this.#promote()
    if (overdue !== undefined) return { state: 'absent', reason: absentReason(this.#howEnded(overdue)) }
    if (expired) return { state: 'absent', reason: 'expired' }
    if (ended?.id !== id) return { state: 'absent', reason: 'unknown' }
    const reason = absentReason(ended.how)
    return ended.detail === undefined ? { state: 'absent', reason } : { state: 'absent', reason, detail: ended.detail }
  }
}

/** A step's lists before anything is in them. Never changed: see {@link added}. */
const none: never[] = []

/** The list with one more. Nearly all stay empty or get one entry, for which `push` would reserve room for seventeen. */
function added<Item>(list: Item[], item: Item): Item[] {
  if (list.length === 0) return [item]
  list.push(item)
  return list
}

/** Whether a claim can join those who hold. Mismatch: they share by another limit. */
function roomFor(claim: Claim, holders: Iterable<ClaimRecord>): 'room' | 'none' | 'mismatch' {
  let sharing = 0
  let mismatch = false
  for (const holder of holders) {
    if (holder.claim.id === claim.replaces || !overlaps(holder.claim, claim)) continue
    if (excludes(holder.claim, claim)) return 'none'
    if (holder.claim.limit !== claim.limit) mismatch = true
    sharing += 1
  }
  if (mismatch) return 'mismatch'
  return claim.limit !== undefined && sharing >= claim.limit ? 'none' : 'room'
}

/** Whether no claim at all can overtake this one while it waits. */
function holdsUpEverybody(claim: Claim): boolean {
  return claim.range === undefined && (claim.mode === 'exclusive' || claim.limit !== undefined)
}
