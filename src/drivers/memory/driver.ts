/**
 * Locks in this process: the reference for every other driver, and the store for users' own tests.
 *
 * `memory()` is private to one driver, `memory({ name })` is shared by all of that name in the process. A clock can be
 * passed in, so that a test can move time and play several runners.
 */
import { admit } from '../../core/rule/admission.ts'
import { keyOf } from '../../core/contract/requests.ts'
import { listed, type ClaimRecord } from '../../core/rule/claim-record.ts'
import type {
  OnGap,
  OnNotification,
  KeyPage,
  ListedKey,
  ListQuery,
  LockDriver,
  Request,
  ClaimStatus,
} from '../../core/contract/driver.ts'
import { monotonicMs } from '../../core/machine/machine-clock.ts'
import { fenceFloor } from '../../core/rule/fence.ts'
import { fullSupport } from '../../core/contract/supports.ts'
import { KeyState, type FenceCounter } from '../../core/rule/key-state.ts'
import { withinLimits } from '../../core/contract/limits.ts'
import { Lifecycle } from '../kit/lifecycle.ts'
import { Listeners } from '../kit/listeners.ts'
import { oneInThisRealm } from '../../core/machine/runtime.ts'
import { checkOptions, type OptionNames } from '../../core/contract/option-names.ts'
import { version } from '../../core/package-version.ts'
import { claimsLimit, firstKeys, pageOf } from '../kit/paging.ts'
import { inNextTurn } from '../../core/time/event-loop.ts'
import { NameOrder } from './name-order.ts'

/** The store's time. `now` must never go back by itself; `wall` is milliseconds since 1970. */
export interface MemoryClock {
  now(): number
  wall(): number
}

/** The options of `memory`. */
export interface MemoryOptions {
  /**
   * Drivers of the same name share one store.
   *
   * @default a store of its own
   */
  readonly name?: string | undefined
  /**
   * The time of the store. With a name, the clock of the driver that was made first counts.
   *
   * @default this machine's
   */
  readonly clock?: MemoryClock | undefined
}

const memoryNames: OptionNames<MemoryOptions> = { name: true, clock: true }

/** With fewer keys than this, abandoned ones are not looked for. */
const keysKeptAnyway = 1000
/** A claim that expired this long ago will not be asked for again: its process died, and the name was used once. */
const abandonedAfterMs = 3_600_000
/** With more keys than this that time is shorter, by as much as there are more: names that are used once must not fill the memory. */
const keysKeptLong = 2000

/** Requests that are carried out in one turn of the event loop: about a millisecond. */
const requestsPerTurn = 250

const systemClock: MemoryClock = { now: monotonicMs, wall: () => Date.now() }

/**
 * All copies of this module in a process share this map: a test tool may load one as an ES module and another by `require`. Copies of
 * another version have their own, as their stores may be of another shape.
 */
const storesByName: Map<string, MemoryStore> = oneInThisRealm(`leasehold ${version} memory stores`, () => new Map())

/**
 * A lock store in this process.
 *
 * @example
 * ```ts
 * import { createLocks } from 'leasehold'
 * import { memory } from 'leasehold/memory'
 *
 * await using locks = await createLocks({ driver: memory({ name: 'shared' }) })
 * ```
 */
export function memory(options: MemoryOptions = {}): LockDriver {
  checkOptions(options, memoryNames, 'memory')
  const { name, clock = systemClock } = options
  if (name === undefined) return new MemoryDriver(new MemoryStore(clock))
  let store = storesByName.get(name)
  if (store === undefined) storesByName.set(name, (store = new MemoryStore(clock)))
  return new MemoryDriver(store)
}

/** All keys of one store. Keys without claims are not kept: one fence counter serves them all. */
class MemoryStore {
  readonly listeners = new Listeners()
  readonly #clock: MemoryClock
  /** A key that has one holder and nothing else is kept as that record alone: it takes a third of the memory. */
  readonly #keys = new Map<string, KeyState | ClaimRecord>()
  /** A key state without claims, to be used again. */
  #spare: KeyState | undefined
  /** Keys that remember an ending, oldest first. A few of them are forgotten with each request. */
  readonly #remembered = new Set<string>()
  /**
   * Iterates over the keys again and again, two with each request. Absent while there are few: a map with an open iterator keeps every
   * table it has outgrown since the iterator's last step.
   */
  #round: MapIterator<[string, KeyState | ClaimRecord]> | undefined
  /** The names in order, since a list asked for some of many. */
  #names: NameOrder | undefined
  readonly #madeAt: number
  readonly #fences: FenceCounter

  constructor(clock: MemoryClock) {
    this.#clock = clock
    this.#madeAt = clock.now()
    this.#fences = { last: 0 }
  }

  get now(): number {
    return Math.floor(this.#clock.now())
  }

  get ageMs(): number {
    return this.#clock.now() - this.#madeAt
  }

  /** The least the next fence may be. Another process may have had a store of this name before, and its fences were lower. */
  get fenceFloor(): number {
    return fenceFloor(this.#clock.wall())
  }

  carryOutAll(requests: readonly Request[]): readonly ClaimStatus[] {
    const { now, fenceFloor: floor } = this
    return requests.map((request) => this.#carryOut(request, now, floor))
  }

  #carryOut(request: Request, now: number, floor: number): ClaimStatus {
    const key = keyOf(request)
    const kept = this.#keys.get(key)
    const state = this.#read(kept)
    state.fenceFloor = floor
    const verdict = admit(state, request, now)
    state.apply(verdict)
    this.#keep(key, state)
    if (this.#remembered.size > 0) this.#forgetSome(now)
    if (this.#keys.size > keysKeptAnyway) {
      if (kept === undefined && this.#names !== undefined) this.#noteName(this.#names, key)
      this.#forgetAbandoned(now)
    } else {
      this.#round = undefined
      this.#names = undefined
    }
    for (const { record, status } of verdict.notifications) {
      queueMicrotask(() => this.listeners.notify(key, record.claim.id, status))
    }
    return verdict.status
  }

  #read(kept: KeyState | ClaimRecord | undefined): KeyState {
    if (kept instanceof KeyState) return kept
    const state = this.#spare ?? new KeyState(this.#fences)
    this.#spare = undefined
    if (kept !== undefined) state.put(kept)
    return state
  }

  #keep(key: string, state: KeyState): void {
    const onlyHolder = state.takeOnlyHolder()
    if (onlyHolder !== undefined) this.#keys.set(key, onlyHolder)
    else if (state.idle) this.#keys.delete(key)
    else {
      this.#keys.set(key, state)
      if (state.ended !== undefined) this.#remembered.add(key)
      return
    }
    this.#spare = state
  }

  async list(query: ListQuery): Promise<KeyPage> {
    const hasClaims = (key: string): boolean => {
      const kept = this.#keys.get(key)
      return kept instanceof KeyState ? kept.hasClaims : kept !== undefined
    }
    const names = query.key === undefined ? await this.#firstKeys(query, hasClaims) : [query.key]
    return pageOf(names, query, this.now, (key) => {
      const kept = this.#keys.get(key)
      if (kept === undefined) return { claims: [] }
      return kept instanceof KeyState ? listedClaims(kept, query) : { claims: [listed(kept)] }
    })
  }

  #noteName(names: NameOrder, key: string): void {
    if (this.#keys.has(key) && !names.add(key)) this.#names = undefined
  }

  async #firstKeys(query: ListQuery, hasClaims: (key: string) => boolean): Promise<readonly string[]> {
    if (this.#keys.size <= keysKeptAnyway) return firstKeys(this.#keys.keys(), query, hasClaims)
    this.#names ??= new NameOrder(this.#keys.keys())
    return this.#names.page(query, this.#keys, hasClaims)
  }

  /** Forgets a few endings that no longer matter, so that keys used once do not pile up. */
  #forgetSome(now: number): void {
    let checksLeft = 4
    for (const key of this.#remembered) {
      if (checksLeft-- === 0) return
      this.#remembered.delete(key)
      const state = this.#keys.get(key)
      if (!(state instanceof KeyState) || state.ended === undefined) continue
      if (now < state.ended.until) this.#remembered.add(key)
      else {
        state.ended = undefined
        this.#keep(key, state)
      }
    }
  }

  /** Forgets a few keys whose claims are all abandoned. */
  #forgetAbandoned(now: number): void {
    const afterMs = abandonedAfterMs * Math.min(1, keysKeptLong / this.#keys.size)
    for (let checks = 0; checks < 2; checks += 1) {
      this.#round ??= this.#keys.entries()
      const { value, done } = this.#round.next()
      if (done === true) this.#round = undefined
      else if (isAbandoned(value[1], now, afterMs)) this.#keys.delete(value[0])
    }
  }
}

/** The first claims of a key, as many as the query may show, and how many there are. */
function listedClaims(state: KeyState, query: ListQuery): Omit<ListedKey, 'key'> {
  const [holders, waiters] = [state.holders(), state.waiters()]
  const claimsMax = claimsLimit(query)
  const records = [...holders.slice(0, claimsMax), ...waiters.slice(0, Math.max(0, claimsMax - holders.length))]
  const isCut = holders.length + waiters.length > records.length
  const known = query.known === undefined || !isCut ? undefined : state.find(query.known)
  if (known !== undefined && !records.includes(known)) records.push(known)
  const claims = records.map(listed)
  return isCut ? { claims, held: holders.length, waiting: waiters.length } : { claims }
}

function isAbandoned(state: KeyState | ClaimRecord, now: number, afterMs: number): boolean {
  const isOver = ({ expiresAt, claim }: ClaimRecord): boolean => now >= expiresAt + claim.graceMs + afterMs
  if (!(state instanceof KeyState)) return isOver(state)
  return state.holders().every(isOver) && state.waiters().every(isOver) && now >= (state.ended?.until ?? 0)
}

class MemoryDriver implements LockDriver {
  readonly name = 'memory'
  readonly supports = fullSupport
  readonly store: unknown
  readonly #store: MemoryStore
  readonly #listening: Disposable[] = []
  readonly #lifecycle = new Lifecycle('This memory store', async () => true)

  constructor(store: MemoryStore) {
    this.store = store
    this.#store = store
  }

  async open(): Promise<void> {
    await this.#lifecycle.opened()
  }

  send(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    return withinLimits(this.supports, requests, (valid) => this.#sendValid(valid))
  }

  async #sendValid(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    this.#lifecycle.refuseIfShut()
    if (requests.length <= requestsPerTurn) return this.#store.carryOutAll(requests)
    const statuses: ClaimStatus[] = []
    for (let from = 0; from < requests.length; from += requestsPerTurn) {
      // What is done is done: the rest is carried out although the store may be closed meanwhile.
      if (from > 0) await new Promise<void>(inNextTurn)
      const slice = requests.slice(from, from + requestsPerTurn)
      for (const status of this.#store.carryOutAll(slice)) statuses.push(status)
    }
    return statuses
  }

  async list(query: ListQuery): Promise<KeyPage> {
    this.#lifecycle.refuseIfShut()
    return this.#store.list(query)
  }

  listen(onNotification: OnNotification, onGap?: OnGap): Disposable {
    const listening = this.#store.listeners.listen(onNotification, onGap)
    this.#listening.push(listening)
    return listening
  }

  async dataAgeMs(): Promise<number> {
    return this.#store.ageMs
  }

  async close(): Promise<void> {
    this.#lifecycle.shut()
    for (const listening of this.#listening) listening[Symbol.dispose]()
  }
}
