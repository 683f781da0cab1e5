import type { ListedClaim, ListedKey, LockDriver } from '../../core/contract/driver.ts'
import { describeScope, splitStoreKey } from '../../core/contract/scope.ts'
import type { ChangeDocument, ChangeKind, RatesDocument, TotalsDocument } from '../../dashboard/documents.ts'
import { namespaceOf } from '../auth/rights.ts'
import type { Pace } from '../contract/call.ts'
import { runnerDocument } from './lock-documents.ts'
import { atOnce, type Steps } from './pieces.ts'

/** A change of one claim. */
interface SeenChange {
  readonly kind: ChangeKind
  readonly claim: ListedClaim
  readonly detail?: string
  /** The claim was granted after a holder whose lease ran out. */
  readonly isTakeover?: boolean
}

/** What happened between two snapshots. Claims that came and went in between are not seen. */
export function changesBetween(before: StoreSnapshot, after: StoreSnapshot, at: string): readonly ChangeDocument[] {
  return atOnce(changeSteps(before, after, at))
}

/** The same, a key a step. */
export function* changeSteps(before: StoreSnapshot, after: StoreSnapshot, at: string): Steps<ChangeDocument[]> {
  const earlier = new Map(before.keys.map((listed) => [listed.key, listed]))
  const later = new Map(after.keys.map((listed) => [listed.key, listed]))
  const isWhole = !before.truncated && !after.truncated
  const changes: ChangeDocument[] = []
  for (const key of new Set([...earlier.keys(), ...later.keys()])) {
    yield
    const was = earlier.get(key)
    const is = later.get(key)
    // A key that only one of two truncated snapshots holds may have been beyond the end of the other.
    if (!isWhole && (was === undefined || is === undefined)) continue
    for (const change of changesOf(was, before.now, is, after.now)) changes.push(describeChange(key, change, at))
  }
  return changes
}

/** Claims that ended come first, then those they made room for. */
function changesOf(
  was: ListedKey | undefined,
  wasNow: number,
  is: ListedKey | undefined,
  isNow: number,
): readonly SeenChange[] {
  const before = byIdentity(was)
  const after = byIdentity(is)
  // Of a key with too many claims the first are listed: others may have taken their places, or be listed for the first time.
  const ended = [...before]
    .filter(([identity, { state }]) => !after.has(identity) && areAllListed(is, state))
    .flatMap(([, claim]) => endOf(claim, wasNow, isNow))
  const begun = [...after]
    .filter(([identity, claim]) => before.has(identity) || areAllListed(was) || changedSince(claim, wasNow))
    .flatMap(([identity, claim]) => claimChangesOf(before.get(identity), wasNow, claim, isNow))
  const ranOut = [...before].filter(
    ([identity, { state, expiresAt }]) => state === 'held' && !after.has(identity) && isNow >= expiresAt,
  )
  return [...ended, ...withTakeovers(begun, ranOut.length)]
}

/** Of the grants, so many are takeovers as leases ran out and are gone. */
function withTakeovers(changes: readonly SeenChange[], ranOut: number): readonly SeenChange[] {
  let left = ranOut
  return changes.map((change) => {
    if (change.kind !== 'granted' || left === 0) return change
    left -= 1
    return { ...change, isTakeover: true }
  })
}

/** Whether all holders of a key are listed or, by default, all claims. */
function areAllListed(listed: ListedKey | undefined, state: ListedClaim['state'] = 'waiting'): boolean {
  if (listed?.held === undefined || listed.waiting === undefined) return true
  const { claims, held, waiting } = listed
  return claims.length >= (state === 'held' ? held : held + waiting)
}

/** Whether a claim was queued or granted after this time of the store's clock. */
function changedSince({ state, enteredAt, acquiredAt }: ListedClaim, wasNow: number): boolean {
  return (state === 'held' ? acquiredAt : enteredAt) > wasNow
}

function endOf(claim: ListedClaim, wasNow: number, isNow: number): readonly SeenChange[] {
  if (claim.state === 'waiting') return [{ kind: 'left', claim }]
  // Its expiry was reported before.
  if (wasNow >= claim.expiresAt) return []
  if (isNow >= claim.expiresAt) return [{ kind: 'lost', claim, detail: 'expired' }]
  return [{ kind: 'released', claim }]
}

function claimChangesOf(
  was: ListedClaim | undefined,
  wasNow: number,
  is: ListedClaim,
  isNow: number,
): readonly SeenChange[] {
  if (is.state === 'waiting') return was === undefined ? [{ kind: 'queued', claim: is }] : []
  const changes: SeenChange[] = was?.state === 'held' ? [] : [{ kind: 'granted', claim: is }]
  if (is.leaving !== undefined && was?.leaving === undefined) {
    changes.push({ kind: 'leaving', claim: is, detail: is.leaving })
  }
  const wasOver = was !== undefined && wasNow >= was.expiresAt
  if (isNow >= is.expiresAt && !wasOver) changes.push({ kind: 'lost', claim: is, detail: 'expired' })
  return changes
}

function byIdentity(listed: ListedKey | undefined): ReadonlyMap<string, ListedClaim> {
  const seen = new Map<string, number>()
  return new Map(
    (listed?.claims ?? []).map((claim) => {
      const identity = identityOf(claim)
      const earlier = seen.get(identity) ?? 0
      seen.set(identity, earlier + 1)
      return [JSON.stringify([identity, earlier]), claim]
    }),
  )
}

/**
 * The same while the claim waits and when it holds. Ids are empty if the store is itself a server: the claims that a client makes in one
 * millisecond then share an identity, and are numbered.
 */
function identityOf({ id, enteredAt, runner }: ListedClaim): string {
  return id === '' ? JSON.stringify([runner.client, runner.owner ?? '', enteredAt]) : id
}

function describeChange(key: string, { kind, claim, detail, isTakeover }: SeenChange, at: string): ChangeDocument {
  return {
    kind,
    at,
    namespace: namespaceOf(key),
    scope: describeScope({ key: splitStoreKey(key)?.scopeKey ?? key, range: claim.range }),
    key,
    fence: claim.fence,
    runner: runnerDocument(claim.runner),
    detail,
    waitedMs: kind === 'granted' ? Math.max(0, Math.round(claim.acquiredAt - claim.enteredAt)) : undefined,
    takeover: isTakeover,
  }
}

/** How often each key's claims were renewed between two snapshots, a key a step. */
export function* renewalSteps(before: StoreSnapshot, after: StoreSnapshot): Steps<ReadonlyMap<string, number>> {
  const earlier = new Map(before.keys.map((listed) => [listed.key, listed]))
  const renewals = new Map<string, number>()
  for (const listed of after.keys) {
    yield
    const was = earlier.get(listed.key)
    if (was === undefined) continue
    const were = byIdentity(was)
    let count = 0
    for (const [identity, claim] of byIdentity(listed)) {
      count += Math.max(0, claim.renewalCount - (were.get(identity)?.renewalCount ?? Infinity))
    }
    if (count > 0) renewals.set(listed.key, count)
  }
  return renewals
}

/** Counts changes and renewals of the keys that `isSeen`. Without renewals: the store does not count them. */
export function ratesOf(
  changes: readonly ChangeDocument[],
  renewals: ReadonlyMap<string, number> | undefined,
  isSeen: (key: string) => boolean,
): RatesDocument {
  const count = (kind: ChangeKind): number => changes.filter((change) => change.kind === kind).length
  const seen = renewals && [...renewals].filter(([key]) => isSeen(key)).map(([, times]) => times)
  return {
    granted: count('granted'),
    renewed: seen?.reduce((sum, times) => sum + times, 0),
    queued: count('queued'),
    lost: count('lost'),
  }
}

/** How many there are among the keys that `isSeen`. */
export function totalsOf(snapshot: StoreSnapshot, isSeen: (key: string) => boolean): TotalsDocument {
  return atOnce(totalSteps(snapshot, isSeen))
}

/** The same, a key a step. */
export function* totalSteps(
  { now, keys, truncated }: StoreSnapshot,
  isSeen: (key: string) => boolean,
): Steps<TotalsDocument> {
  const totals = { locks: 0, holders: 0, waiters: 0, expired: 0, truncated }
  for (const { key, claims, held, waiting } of keys) {
    yield
    if (!isSeen(key)) continue
    const holders = claims.filter(({ state }) => state === 'held')
    totals.locks += 1
    totals.holders += held ?? holders.length
    totals.waiters += waiting ?? claims.length - holders.length
    totals.expired += holders.filter(({ expiresAt }) => now >= expiresAt).length
  }
  return totals
}

const keysPerRead = 1000
/** Reads for one snapshot: a store with more than ten thousand locks is not read whole every second. */
const readsMax = 10

/** What a store holds, up to the limit of one snapshot. */
export interface StoreSnapshot {
  /** The store's clock at the end of the reading. */
  readonly now: number
  readonly keys: readonly ListedKey[]
  /** There are more. */
  readonly truncated: boolean
}

/** Keys and claims that are read count as one request for each so many, for the rate limit of a token. */
const listedPerRequest = 16

/** How many requests a page of the store counts as. */
export function requestsWorth(keys: readonly ListedKey[]): number {
  return Math.floor(keys.reduce((sum, { claims }) => sum + 1 + claims.length, 0) / listedPerRequest)
}

/** A pace for work of our own: others get their turn between two pieces of it. */
export const ownPace: Pace = {
  charge: () => {},
  turn: () => new Promise((resolve) => void setImmediate(resolve)),
}

/** Reads the store's locks, all namespaces unless one is named. */
export async function readSnapshot(
  driver: Pick<LockDriver, 'list'>,
  pace: Pace,
  namespace?: string,
): Promise<StoreSnapshot> {
  const keys: ListedKey[] = []
  let after: string | undefined
  let now = 0
  for (let reads = 0; reads < readsMax; reads += 1) {
    await pace.turn()
    const page = await driver.list({
      limit: keysPerRead,
      ...(namespace !== undefined && { prefix: `${namespace}/` }),
      ...(after !== undefined && { after }),
    })
    pace.charge(requestsWorth(page.keys))
    keys.push(...page.keys)
    ;({ now } = page)
    after = page.next
    if (after === undefined) break
  }
  return { now, keys, truncated: after !== undefined }
}
