import type { ListedClaim, ListedKey } from '../../core/contract/driver.ts'
import { describeScope, splitStoreKey } from '../../core/contract/scope.ts'
import { anyText, choice, integer, optional, string, type Described } from '../../core/wire/schema.ts'
import type { LockRow, OverviewDocument } from '../../dashboard/documents.ts'
import { namespaceOf } from '../auth/rights.ts'
import type { Pace, Principal } from '../contract/call.ts'
import { readQuery } from '../contract/query.ts'
import { ownPace, requestsWorth, type StoreSnapshot } from './changes.ts'
import { lockDocument } from './lock-documents.ts'
import { checkNamespaceCovered } from './locks.ts'
import { filtered, inPieces, mapped, sorted, type Steps } from './pieces.ts'
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
  readonly scopeInLowerCase: string
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
  /** The locks of a snapshot by how they are sorted: once for all who ask. */
  readonly #sorted = new WeakMap<StoreSnapshot, Map<string, Promise<readonly Facts[]>>>()

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
    const all = await this.#sortedFacts(snapshot, query)
    const turn = (): Promise<void> => pace.turn()
    const readable = await inPieces(
      filtered(all, ({ listed }) => principal.may('read', listed.key)),
      turn,
    )
    const name = query.name?.toLowerCase()
    const rows = await inPieces(
      filtered(readable, (facts) => matches(facts, query, name)),
      turn,
    )
    const { from = 0, limit = rowsDefault } = query
    const shown = rows.slice(from, from + limit)
    pace.charge(Math.floor(readable.length / keysPerRequest) + requestsWorth(shown.map(({ listed }) => listed)))
    await pace.turn()
    const wall = this.#environment.wall()
    return {
      total: rows.length,
      from,
      rows: await inPieces(
        mapped(shown, (facts) => rowOf(facts, snapshot.now, wall)),
        turn,
      ),
      namespaces: await inPieces(
        offered(readable, ({ namespace }) => [namespace]),
        turn,
      ),
      services: await inPieces(
        offered(readable, ({ services }) => services),
        turn,
      ),
      truncated: snapshot.truncated,
    }
  }

  #sortedFacts(snapshot: StoreSnapshot, query: OverviewQuery): Promise<readonly Facts[]> {
    const known = this.#sorted.get(snapshot) ?? new Map<string, Promise<readonly Facts[]>>()
    this.#sorted.set(snapshot, known)
    return kept(known, `${query.sort} ${query.order}`, async () => {
      // Others may wait for the same: it is not to end with the call that asked first.
      const facts = kept(known, 'facts', () =>
        inPieces(
          mapped(snapshot.keys, (listed) => factsOf(listed, snapshot.now)),
          ownPace.turn,
        ),
      )
      return inPieces(sorted(await facts, orderOf(query)), ownPace.turn)
    })
  }
}

function kept<Value>(known: Map<string, Value>, name: string, make: () => Value): Value {
  let value = known.get(name)
  if (value === undefined) known.set(name, (value = make()))
  return value
}

function factsOf(listed: ListedKey, now: number): Facts {
  const { key, claims } = listed
  const holders = claims.filter(({ state }) => state === 'held')
  const waits = claims.filter(({ state }) => state === 'waiting').map(({ enteredAt }) => Math.max(0, now - enteredAt))
  const scope = describeScope({ key: splitStoreKey(key)?.scopeKey ?? key })
  return {
    listed,
    namespace: namespaceOf(key),
    scope,
    scopeInLowerCase: scope.toLowerCase(),
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

function matches(facts: Facts, { namespace, service, state }: OverviewQuery, nameInLowerCase?: string): boolean {
  if (namespace !== undefined && facts.namespace !== namespace) return false
  if (nameInLowerCase !== undefined && !facts.scopeInLowerCase.includes(nameInLowerCase)) return false
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

function* offered(readable: readonly Facts[], namesOf: (facts: Facts) => readonly string[]): Steps<string[]> {
  const names = new Set<string>()
  for (const facts of readable) {
    for (const name of namesOf(facts)) names.add(name)
    yield
  }
  const inOrder = yield* sorted([...names], (left, right) => Number(left > right) - Number(left < right))
  return inOrder.slice(0, offeredMax)
}
