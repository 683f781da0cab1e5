import { internalsOf } from '../../api/client/locks-internals.ts'
import { lockInfo } from '../../api/operators/inspection.ts'
import type { ListedKey } from '../../core/contract/driver.ts'
import { splitStoreKey, storeKey } from '../../core/contract/scope.ts'
import type { Locks, LockInfo } from '../../index.ts'

/** A lock with its namespace, for listings of more than one. */
export interface ListedLock extends LockInfo {
  readonly namespace: string
}

/** Which locks to list. */
export interface Selection {
  /** Every namespace of the store, instead of that of the client. */
  readonly everywhere: boolean
  /** Names that begin with this; only inside one namespace. */
  readonly prefix?: string | undefined
}

/** What a store listed at one time. */
export interface Snapshot {
  /** The store's clock. */
  readonly now: number
  /** This machine's clock at the same time. */
  readonly wall: number
  readonly keys: readonly ListedKey[]
  /** Whether the store has more than was read. */
  readonly truncated: boolean
}

const keysPerPage = 500
/** A snapshot is kept in memory: it has no more locks and claims than these. */
const keysMax = 20_000
const claimsMax = 100_000

/** The pages of a listing, with the clocks at the time of each. */
async function* pagesOf(locks: Locks, { everywhere, prefix }: Selection): AsyncIterable<Snapshot> {
  const { driver, environment, namespace } = internalsOf(locks, 'the command line').client
  let after: string | undefined
  do {
    const page = await driver.list({
      prefix: everywhere ? '' : storeKey(namespace, prefix === undefined ? '' : `named:${prefix}`),
      limit: keysPerPage,
      ...(after !== undefined && { after }),
    })
    yield { now: page.now, wall: environment.wall(), keys: page.keys, truncated: page.next !== undefined }
    after = page.next
  } while (after !== undefined)
}

/** Every selected lock, a page at a time in memory. */
export async function* everyLock(locks: Locks, selection: Selection): AsyncIterable<ListedLock> {
  for await (const { keys, now, wall } of pagesOf(locks, selection)) {
    for (const key of keys) yield listedLock(key, now, wall)
  }
}

/** A key as operators see it, with its namespace. */
export function listedLock(key: ListedKey, now: number, wall: number): ListedLock {
  return { ...lockInfo(key, now, wall), namespace: splitStoreKey(key.key)?.namespace ?? '' }
}

/** The selected locks at one time, as many as are kept in memory. */
export async function readStore(locks: Locks, selection: Selection): Promise<Snapshot> {
  const keys: ListedKey[] = []
  let claims = 0
  let clocks = { now: 0, wall: 0 }
  for await (const page of pagesOf(locks, selection)) {
    // The first page's clock: ages of what later pages show are a little too short, never negative.
    if (keys.length === 0) clocks = { now: page.now, wall: page.wall }
    keys.push(...page.keys)
    claims += page.keys.reduce((sum, key) => sum + key.claims.length, 0)
    if (keys.length >= keysMax || claims >= claimsMax) return { ...clocks, keys, truncated: page.truncated }
  }
  return { ...clocks, keys, truncated: false }
}

/** One lock at one time, by its key with the namespace. */
export async function readKey(locks: Locks, key: string): Promise<Snapshot> {
  const { driver, environment } = internalsOf(locks, 'the command line').client
  const { now, keys } = await driver.list({ key })
  return { now, wall: environment.wall(), keys, truncated: false }
}

/** The other namespaces that have locks, of the first page of the whole store; none if it may not be read. */
export async function otherNamespaces(locks: Locks): Promise<readonly string[]> {
  const found = new Set<string>()
  try {
    for await (const { keys } of pagesOf(locks, { everywhere: true })) {
      for (const { key } of keys) found.add(splitStoreKey(key)?.namespace ?? '')
      break
    }
  } catch {
    // A hint is a courtesy: a token of a server may be for one namespace only.
  }
  return [...found].filter((namespace) => namespace !== '' && namespace !== locks.namespace).toSorted()
}
