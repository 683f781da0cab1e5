import type { ListedClaim, ListedKey } from '../../core/contract/driver.ts'
import { describeScope, splitStoreKey } from '../../core/contract/scope.ts'
import { anyText, choice, integer, optional, string, type Described } from '../../core/wire/schema.ts'
import type { LockRow, OverviewDocument } from '../../dashboard/documents.ts'
import { namespaceOf } from '../auth/rights.ts'
import type { Pace, Principal } from '../contract/call.ts'
import { readQuery } from '../contract/query.ts'
import { requestsWorth, type StoreSnapshot } from './changes.ts'
import { lockDocument } from './lock-documents.ts'
import { checkNamespaceCovered } from './locks.ts'
import type { Snapshots } from './snapshots.ts'

/** Holders of a row: those with something wrong come first. */
const holdersShown = 8
const rowsDefault = 100
/** What the filters offer. */
const offeredMax = 200
const serviceLengthMax = 100
/** Sorting a snapshot of ten thousand locks takes as long as so many requests. */
const keysPerRequest = 500

/** The query of `GET /v1/overview`. */
export const overviewQuery = {
  namespace: optional(string(512)),
  name: optional(string(512)),
  service: optional(string(512)),
  state: optional(choice('held', 'waited-for', 'expired', 'leaving')),
  sort: optional(choice('contention', 'waiters', 'age', 'name')),
  order: optional(choice('first', 'last')),
  from: optional(integer({ least: 0, most: 1_000_000 })),
  limit: optional(integer({ least: 1, most: 500 })),
}
export type OverviewQuery = Described<typeof overviewQuery>

/** Reads the query of `GET /v1/overview`. */
export function readOverviewQuery(query: URLSearchParams, principal: Principal): OverviewQuery {
  const read = readQuery(overviewQuery, query, { emptyIsAbsent: true })
  checkNamespaceCovered(principal, read.namespace)
  return read
}

/** The query of `GET /v1/lock`. */
export const lockKeyQuery = { key: anyText }

/** What the table is sorted and filtered by: worked out once for each snapshot. */
interface Facts {
  readonly listed: ListedKey
  readonly namespace: string
  readonly scope: string
  readonly held: number
  readonly waiting: number
  /** For how long all waiters together have waited. */
  readonly waitedMs: number
  readonly longestWaitMs: number
  /** For how long the lock has been held by the same holder. */
  readonly heldMs: number
  readonly services: readonly string[]
  readonly hasExpired: boolean
  readonly isLeaving: boolean
}

/** A page of the locks that a principal may read, sorted. */
export class Overview {
  readonly #snapshots: Snapshots
  readonly #freshMs: number
  readonly #environment: { wall(): number }
  readonly #facts = new WeakMap<StoreSnapshot, readonly Facts[]>()

  /** `freshMs`: how old the snapshot may be that is shown. */
  constructor(snapshots: Snapshots, environment: { wall(): number }, freshMs: number) {
    this.#snapshots = snapshots
    this.#environment = environment
    this.#freshMs = freshMs
  }

  async read(principal: Principal, query: OverviewQuery, pace: Pace): Promise<OverviewDocument> {
    await pace.turn()
    const whole = await this.#snapshots.notOlderThan(this.#freshMs)
    const isPart = whole.truncated && query.namespace !== undefined
    const snapshot = isPart ? await this.#snapshots.notOlderThan(this.#freshMs, query.namespace) : whole
    await pace.turn()
    const readable = this.#factsOf(snapshot).filter(({ listed }) => principal.may('read', listed.key))
    const rows = readable.filter((facts) => matches(facts, query)).toSorted(orderOf(query))
    const { from = 0, limit = rowsDefault } = query
    const shown = rows.slice(from, from + limit)
    pace.charge(Math.floor(readable.length / keysPerRequest) + requestsWorth(shown.map(({ listed }) => listed)))
    await pace.turn()
    const wall = this.#environment.wall()
    return {
      total: rows.length,
      from,
      rows: shown.map((facts) => rowOf(facts, snapshot.now, wall)),
      namespaces: offered(readable.map(({ namespace }) => namespace)),
      services: offered(readable.flatMap(({ services }) => services)),
      truncated: snapshot.truncated,
    }
  }

  #factsOf(snapshot: StoreSnapshot): readonly Facts[] {
    let facts = this.#facts.get(snapshot)
    if (facts === undefined) {
      facts = snapshot.keys.map((listed) => factsOf(listed, snapshot.now))
      this.#facts.set(snapshot, facts)
    }
    return facts
  }
}

function factsOf(listed: ListedKey, now: number): Facts {
  const { key, claims } = listed
  const holders = claims.filter(({ state }) => state === 'held')
  const waits = claims.filter(({ state }) => state === 'waiting').map(({ enteredAt }) => Math.max(0, now - enteredAt))
  return {
    listed,
    namespace: namespaceOf(key),
    scope: describeScope({ key: splitStoreKey(key)?.scopeKey ?? key }),
    held: listed.held ?? holders.length,
    waiting: listed.waiting ?? waits.length,
    waitedMs: waits.reduce((sum, ms) => sum + ms, 0),
    longestWaitMs: waits.reduce((longest, ms) => Math.max(longest, ms), 0),
    heldMs: holders.reduce((longest, { acquiredAt }) => Math.max(longest, now - acquiredAt), 0),
    services: [...new Set(holders.flatMap(serviceOf))],
    hasExpired: holders.some(({ expiresAt }) => now >= expiresAt),
    isLeaving: holders.some(({ leaving }) => leaving !== undefined),
  }
}

function serviceOf({ runner }: ListedClaim): readonly string[] {
  const service = runner.metadata?.['service']
  return typeof service === 'string' && service !== '' ? [service.slice(0, serviceLengthMax)] : []
}

function matches(facts: Facts, { namespace, name, service, state }: OverviewQuery): boolean {
  if (namespace !== undefined && facts.namespace !== namespace) return false
  if (name !== undefined && !facts.scope.toLowerCase().includes(name.toLowerCase())) return false
  if (service !== undefined && !facts.services.includes(service)) return false
  switch (state) {
    case undefined:
      return true
    case 'held':
      return facts.held > 0 && !facts.hasExpired
    case 'waited-for':
      return facts.waiting > 0
    case 'expired':
      return facts.hasExpired
    case 'leaving':
      return facts.isLeaving
  }
}

/** Most first, names from a on; `last` turns it round. Locks that are equal stay in the order of their names. */
function orderOf({ sort = 'contention', order = 'first' }: OverviewQuery): (left: Facts, right: Facts) => number {
  const turn = order === 'first' ? 1 : -1
  return (left, right) => turn * compare(left, right, sort) || byName(left, right)
}

function compare(left: Facts, right: Facts, sort: NonNullable<OverviewQuery['sort']>): number {
  switch (sort) {
    case 'contention':
      return right.waitedMs - left.waitedMs || right.waiting - left.waiting || wrong(right) - wrong(left)
    case 'waiters':
      return right.waiting - left.waiting || right.longestWaitMs - left.longestWaitMs
    case 'age':
      return right.heldMs - left.heldMs
    case 'name':
      return byName(left, right)
  }
}

function wrong({ hasExpired, isLeaving }: Facts): number {
  return Number(hasExpired) * 2 + Number(isLeaving)
}

function byName(left: Facts, right: Facts): number {
  if (left.scope !== right.scope) return left.scope < right.scope ? -1 : 1
  return left.listed.key < right.listed.key ? -1 : 1
}

function rowOf({ listed, services, longestWaitMs, held, waiting }: Facts, now: number, wall: number): LockRow {
  const holders = listed.claims.filter(({ state }) => state === 'held')
  const oddFirst = holders.toSorted((left, right) => odd(right, now) - odd(left, now))
  const document = lockDocument({ key: listed.key, claims: oddFirst.slice(0, holdersShown) }, now, wall)
  const { namespace, scope, key } = document
  return { namespace, scope, key, held, waiting, holders: document.holders, services, longestWaitMs }
}

function odd({ expiresAt, leaving }: ListedClaim, now: number): number {
  return Number(now >= expiresAt) * 2 + Number(leaving !== undefined)
}

function offered(names: readonly string[]): readonly string[] {
  return [...new Set(names)].toSorted().slice(0, offeredMax)
}
