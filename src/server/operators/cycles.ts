import { excludes, overlaps, holdsUpEverybody } from '../../core/rule/conflict.ts'
import type { ListedClaim, ListedKey, LockDriver } from '../../core/contract/driver.ts'
import type { Environment } from '../../core/time/environment.ts'
import { ownersOf } from '../../core/contract/owner-name.ts'
import { describeScope, splitStoreKey } from '../../core/contract/scope.ts'
import { findDeadlocks, claimsInBoth, waitingClaims, type WaitingClaim } from '../../core/rule/wait-for-graph.ts'
import type { CyclesDocument, OwnerDocument, WaitDocument } from '../../dashboard/documents.ts'
import { runnerOfItsToken } from '../auth/readable-names.ts'
import { namespaceOf } from '../auth/rights.ts'
import type { Pace, Principal } from '../contract/call.ts'
import { runnerDocument } from './lock-documents.ts'
import { readSnapshot, type StoreSnapshot } from './changes.ts'

/** A cycle counts if it is in two snapshots this far apart: a snapshot takes several reads. */
const secondReadMs = 100
/** The most waits in a document: ten thousand waiters would make too many to read. */
const waitsMax = 1000

/** For whom cycles are read, and how. */
interface CyclesQuery {
  readonly principal: Principal
  readonly pace: Pace
  /** Undefined: all of them. */
  readonly namespace: string | undefined
}

/** Who waits for whom now, of what the principal may see. */
export async function readCycles(
  driver: Pick<LockDriver, 'list'>,
  environment: Pick<Environment, 'timer'>,
  { principal, pace, namespace }: CyclesQuery,
): Promise<CyclesDocument> {
  const snapshot = async (): Promise<StoreSnapshot> => {
    const seen = await readSnapshot(driver, pace, namespace)
    await pace.turn()
    const seenKeys = seen.keys.filter(({ key }) => principal.may('read', key))
    return apartByToken(comparable({ ...seen, keys: seenKeys }))
  }
  const first = await snapshot()
  if (findDeadlocks(first).length === 0) return describeWaits(first, [])
  await new Promise<void>((resolve) => environment.timer(secondReadMs, resolve).keepAlive(true))
  const second = await snapshot()
  const status = findDeadlocks({ now: second.now, keys: claimsInBoth(first.keys, second.keys) })
  const cycles = status.map(({ cycle }) => cycle)
  return describeWaits(second, cycles)
}

/** No token has this name: all of them are others. */
const noToken = { name: '' }

/** The snapshot with the owners of each token apart, so that none passes for another's: see `runnerOfItsToken`. */
function apartByToken(snapshot: StoreSnapshot): StoreSnapshot {
  const keys = snapshot.keys.map((listed) => ({
    ...listed,
    claims: listed.claims.map((claim) => ({ ...claim, runner: runnerOfItsToken(claim.runner, noToken) })),
  }))
  return { ...snapshot, keys }
}

/** A snapshot of the store as a graph of owners. */
export function describeWaits(
  snapshot: StoreSnapshot,
  deadlocks: readonly (readonly WaitingClaim[])[],
): CyclesDocument {
  const owners = new Owners()
  const cycles = deadlocks.map((cycle) =>
    cycle.map(({ key, claim }) => ({ owner: owners.of(claim), key, scope: scopeText(key, claim) })),
  )
  const circular = new Set(
    cycles.flatMap((cycle) =>
      cycle.map(({ owner, key }, index) => wayName(owner, cycle[(index + 1) % cycle.length]?.owner ?? owner, key)),
    ),
  )
  const waits = snapshot.keys.flatMap((listed) => waitsOf(listed, snapshot.now, owners, circular))
  // What matters most must not be cut off.
  waits.sort((left, right) => Number(right.circular) - Number(left.circular))
  const shown = waits.slice(0, waitsMax)
  const named = new Set([...cycles.flat().map(({ owner }) => owner), ...shown.flatMap(({ from, to }) => [from, to])])
  return {
    owners: owners.all.filter(({ id }) => named.has(id)),
    waits: shown,
    cycles,
    truncated: snapshot.truncated || waits.length > waitsMax,
  }
}

/** For each waiter of a key: the holders in its way, and the waiter just before it. */
function waitsOf(
  { key, claims }: ListedKey,
  now: number,
  owners: Owners,
  circular: ReadonlySet<string>,
): readonly WaitDocument[] {
  const holders = claims.filter(({ state }) => state === 'held')
  return waitingClaims({ key, claims }, now).flatMap(({ claim, behind }) => {
    const from = owners.of(claim)
    const wait = (other: ListedClaim, because: WaitDocument['because']): WaitDocument => ({
      from,
      to: owners.of(other),
      because,
      namespace: namespaceOf(key),
      scope: scopeText(key, claim),
      key,
      sinceMs: Math.max(0, Math.round(now - claim.enteredAt)),
      circular: circular.has(wayName(from, owners.of(other), key)),
    })
    const held = holders.filter((holder) => isInTheWay(holder, claim)).map((holder) => wait(holder, 'holds'))
    // One owner may hold several permits.
    const once = [...new Map(held.map((each) => [each.to, each])).values()]
    const isCircular = (other: ListedClaim): boolean => circular.has(wayName(from, owners.of(other), key))
    const ahead = behind.filter((other, index) => index === behind.length - 1 || isCircular(other.claim))
    return [...once, ...ahead.map((other) => wait(other.claim, 'ahead'))]
  })
}

function wayName(from: string, to: string, key: string): string {
  return `${from} ${to} ${key}`
}

/** Of a semaphore's holders any one would do, so all of them are shown. */
function isInTheWay(holder: ListedClaim, claim: ListedClaim): boolean {
  if (excludes(holder, claim)) return true
  return claim.limit !== undefined && overlaps(holder, claim)
}

function scopeText(key: string, { range }: ListedClaim): string {
  return describeScope({ key: splitStoreKey(key)?.scopeKey ?? key, range })
}

/** Names the owners of one document. Nested bodies wait together, so they count as one owner. */
class Owners {
  readonly #byName = new Map<string, OwnerDocument>()
  readonly #byClaim = new Map<ListedClaim, string>()

  of(claim: ListedClaim): string {
    let id = this.#byClaim.get(claim)
    if (id === undefined) this.#byClaim.set(claim, (id = this.#find(claim)))
    return id
  }

  #find({ runner }: ListedClaim): string {
    const [outermost = ''] = ownersOf(runner.owner)
    const name = `${runner.client} ${outermost}`
    let owner = this.#byName.get(name)
    if (owner === undefined) {
      owner = { id: `p${this.#byName.size + 1}`, owner: givenName(outermost), runner: runnerDocument(runner) }
      this.#byName.set(name, owner)
    }
    return owner.id
  }

  get all(): readonly OwnerDocument[] {
    return [...this.#byName.values()]
  }
}

/** An owner's name, unless it is an id that `run` made up. */
function givenName(owner: string): string | undefined {
  if (owner === '' || /^[0-9a-f]{32}$/.test(owner)) return undefined
  try {
    return decodeURIComponent(owner)
  } catch {
    return owner
  }
}

/** Pairs of claims compared for one snapshot: more would block the event loop for seconds. */
const pairsMax = 100_000

/**
 * The snapshot with as many waiters as can be compared with the claims before them. Where there are too many, the ends of the
 * most expensive queues are left out: a thousand readers and a thousand writers of one lock hide nobody else's cycle.
 */
export function comparable(snapshot: StoreSnapshot): StoreSnapshot {
  const costs = new Map(snapshot.keys.map((listed) => [listed, queueWithin(listed, Infinity).pairs]))
  let pairsLeft = pairsMax
  if ([...costs.values()].reduce((sum, pairs) => sum + pairs, 0) <= pairsLeft) return snapshot
  const kept = new Map<ListedKey, ListedKey>()
  const cheapFirst = snapshot.keys.toSorted((left, right) => (costs.get(left) ?? 0) - (costs.get(right) ?? 0))
  for (const listed of cheapFirst) {
    const { pairs, claims } = queueWithin(listed, pairsLeft)
    pairsLeft -= pairs
    kept.set(listed, { key: listed.key, claims })
  }
  return { ...snapshot, keys: snapshot.keys.map((listed) => kept.get(listed) ?? listed), truncated: true }
}

/** The holders of a key, and the first of its waiters: so many as make no more pairs than there may be. */
function queueWithin({ claims }: ListedKey, pairsLeft: number): { pairs: number; claims: readonly ListedClaim[] } {
  const holders = claims.filter(({ state }) => state === 'held')
  const kept: ListedClaim[] = [...holders]
  let pairs = 0
  // As in `waitingClaims`: claims behind one that holds up everybody are compared with that claim only.
  let ahead = 0
  for (const claim of claims) {
    if (claim.state === 'held') continue
    const more = holders.length + ahead
    if (pairs + more > pairsLeft) break
    pairs += more
    ahead = holdsUpEverybody(claim) ? 1 : ahead + 1
    kept.push(claim)
  }
  return { pairs, claims: kept }
}
