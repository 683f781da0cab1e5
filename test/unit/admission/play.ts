import { admit, type KeyView, type Decision } from '../../../src/core/rule/admission.ts'
import type { ClaimRecord, Ended } from '../../../src/core/rule/claim-record.ts'
import type { Claim, Request, ClaimStatus } from '../../../src/core/contract/driver.ts'
import type { Crowd } from '../../../src/core/rule/holders.ts'
import type { Lane, WaiterCrowd } from '../../../src/core/rule/waiters.ts'
import { KeyState } from '../../../src/core/rule/key-state.ts'

/** A key's state read through a driver's eyes: it knows which processes have died, and every read is counted. */
class Watched implements KeyView {
  waitersRead = 0
  holdersRead = 0
  readonly #state: KeyState
  readonly #dead: ReadonlySet<string>

  constructor(state: KeyState, dead: ReadonlySet<string>) {
    this.#state = state
    this.#dead = dead
  }

  get lastFence(): number {
    return this.#state.lastFence
  }

  get fenceFloor(): number {
    return this.#state.fenceFloor
  }

  get ended(): Ended | undefined {
    return this.#state.ended
  }

  /** The index knows no deaths. */
  get crowd(): Crowd | undefined {
    return this.#dead.size === 0 ? this.#state.crowd : undefined
  }

  holders(): readonly ClaimRecord[] {
    this.holdersRead += this.#state.holders().length
    return this.#state.holders().map((record) => this.#asSeen(record))
  }

  waiters(): Iterable<ClaimRecord> {
    return this.#readWaiters(this.#state.waiters())
  }

  get waiterCrowd(): WaiterCrowd | undefined {
    const crowd = this.#state.waiterCrowd
    if (crowd === undefined) return undefined
    const read = (waiters: Iterable<ClaimRecord>) => this.#readWaiters(waiters)
    const readLane = (lane: Lane): Lane => ({ name: lane.name, waiters: () => read(lane.waiters()) })
    return {
      conversions: () => read(crowd.conversions()),
      behind: (record) => read(crowd.behind(record)),
      // The index knows no deaths.
      due: (now, before) => read(this.#dead.size === 0 ? crowd.due(now, before) : crowd.behind(undefined)),
      wholeKey: (strictness) => readLane(crowd.wholeKey(strictness)),
      overlapping: (range, strictness) => [...crowd.overlapping(range, strictness)].map(readLane),
      strictOnRanges: () => readLane(crowd.strictOnRanges()),
    }
  }

  *#readWaiters(waiters: Iterable<ClaimRecord>): Iterable<ClaimRecord> {
    for (const waiter of waiters) {
      this.waitersRead += 1
      yield this.#asSeen(waiter)
    }
  }

  find(id: string): ClaimRecord | undefined {
    const record = this.#state.find(id)
    return record === undefined ? undefined : this.#asSeen(record)
  }

  ahead(record: ClaimRecord): number {
    return this.#state.ahead(record)
  }

  nextOrder(): number {
    return this.#state.nextOrder()
  }

  #asSeen(record: ClaimRecord): ClaimRecord {
    return this.#dead.has(record.claim.id) ? { ...record, died: true } : record
  }
}

/** What one request did: everything the rule was given and everything it decided. */
export interface Turn {
  readonly request: Request
  readonly now: number
  readonly before: Snapshot
  readonly decision: Decision
  readonly after: Snapshot
  readonly dead: ReadonlySet<string>
}

export interface Snapshot {
  readonly lastFence: number
  readonly ended: Ended | undefined
  readonly holders: readonly ClaimRecord[]
  readonly waiters: readonly ClaimRecord[]
}

const nobody: Snapshot = { lastFence: 0, ended: undefined, holders: [], waiters: [] }

/** One key with a clock: the smallest place in which the rule can be played. */
export class Play {
  now = 1000
  waitersRead = 0
  holdersRead = 0
  readonly state: KeyState
  readonly dead = new Set<string>()
  readonly #rule: typeof admit

  /** `few`: up to how many holders, or waiters for ranges, are read as a list. */
  constructor(rule: typeof admit = admit, { lastFence, ended, holders, waiters }: Snapshot = nobody, few?: number) {
    this.#rule = rule
    this.state = new KeyState({ last: lastFence }, few)
    this.state.ended = ended
    for (const record of holders) this.state.put(record)
    for (const record of waiters) this.state.put(record)
  }

  turn(request: Request): Turn {
    const { state, now } = this
    const before = this.snapshot()
    const view = new Watched(state, this.dead)
    const decision = this.#rule(view, request, now)
    this.waitersRead = view.waitersRead
    this.holdersRead = view.holdersRead
    state.apply(decision)
    return { request, now, before, decision, after: this.snapshot(), dead: new Set(this.dead) }
  }

  snapshot(): Snapshot {
    const { lastFence, ended } = this.state
    return { lastFence, ended, holders: [...this.state.holders()], waiters: [...this.state.waiters()] }
  }

  claim(id: string, wish: Partial<Omit<Claim, 'id' | 'key'>> = {}): ClaimStatus {
    return this.turn({ op: 'claim', claim: claimOf(id, wish) }).decision.status
  }

  renew(id: string, ttlMs = 100, fenceFloor?: number): ClaimStatus {
    const renewal = { op: 'renew', key: 'key', id, ttlMs } as const
    return this.turn(fenceFloor === undefined ? renewal : { ...renewal, fenceFloor }).decision.status
  }

  release(id: string): ClaimStatus {
    return this.turn({ op: 'release', key: 'key', id }).decision.status
  }

  evict(fence: number): ClaimStatus {
    return this.turn({ op: 'evict', key: 'key', fence, reason: 'test' }).decision.status
  }

  holding(): readonly string[] {
    return this.state.holders().map(({ claim }) => claim.id)
  }

  waiting(): readonly string[] {
    return this.state.waiters().map(({ claim }) => claim.id)
  }
}

export function claimOf(id: string, wish: Partial<Omit<Claim, 'id' | 'key'>> = {}): Claim {
  return {
    id,
    key: 'key',
    mode: 'exclusive',
    priority: 0,
    wait: true,
    ttlMs: 100,
    graceMs: 0,
    runner: { id: `runner of ${id}`, incarnation: '1', host: 'host', pid: 1, client: 'client' },
    ...wish,
  }
}
