import { requestBounds } from '../../core/contract/bounds.ts'
import type { KeyPage, ListedClaim, ListedKey } from '../../core/contract/driver.ts'
import { storeKey } from '../../core/contract/scope.ts'
import { findDeadlocks, type Deadlock } from '../../core/rule/wait-for-graph.ts'
import type { Client } from '../client/client.ts'

/** A wait whose place in a cycle is looked for. */
export interface OwnersWait {
  readonly key: string
  readonly owner: string | undefined
  readonly claimId: string | undefined
}

/** The keys through which waits may be deadlocked, and what reading them cost. */
export interface WaitsRead<Wait extends OwnersWait = OwnersWait> {
  /** The waits that were followed: the first ones, or all. */
  readonly followed: readonly Wait[]
  readonly now: number
  readonly keys: readonly ListedKey[]
  /** Keys and claims that the store has read, of others as well as those listed here. */
  readonly work: number
  /** The clients that were seen waiting on behalf of an owner that holds something: as many may be reading. At least 1. */
  readonly readers: number
  /** Whether the whole namespace was listed, which on a shared store costs more than `work` says. */
  readonly scanned: boolean
  /** Whether the waits of a cycle are known to have lasted at one time. Absent: two reads that agree show it. */
  readonly isConfirmed?: (deadlock: Deadlock) => boolean
}

/** A search that has read as many keys and claims leaves the other waits to the next one. */
const workPerSearch = 2000
/** Keys read by their names for one wait. If more may be part of a cycle with it, the namespace is listed. */
const namedKeysMax = 200
/** Pages of one listing of the namespace. */
const pagesMax = 50

/**
 * Reads who waits for an owner, and who waits for those. A wait is part of a cycle only if its owner holds something, somebody waits
 * for that, and so on back to the awaited key. A claim says which keys its owner held when it began to wait, so every step is a read of a
 * key by its name: an owner that holds nothing, or nothing that anybody waits for, is no reason to look any further.
 */
export async function readWaits<Wait extends OwnersWait>(
  client: Client,
  waits: readonly Wait[],
): Promise<WaitsRead<Wait>> {
  const search = new Search(client)
  const followed: Wait[] = []
  for (const wait of waits) {
    if (search.work >= workPerSearch) break
    await search.follow(wait)
    followed.push(wait)
  }
  let keys = search.keys()
  // What was read may be enough, though it is not all.
  const scanned = !search.isWhole && findDeadlocks({ now: search.now, keys }).length === 0
  if (scanned) keys = await search.scan()
  const { now, work, readers } = search
  return { followed, now, keys, work, readers: readers.size, scanned }
}

/** What one search has read so far. */
class Search {
  readonly #client: Client
  readonly #listed = new Map<string, ListedKey | undefined>()
  readonly readers = new Set<string>()
  /** Whether a wait was found whose owner may, through others, wait for itself. */
  #isSuspected = false
  now = 0
  work = 0
  /** False: an owner may hold more keys than its claim names, or there are more keys than are read by name. */
  isWhole = true

  constructor(client: Client) {
    this.#client = client
    this.readers.add(client.runner.client)
  }

  /** What was read, if any wait may be part of a cycle. */
  keys(): readonly ListedKey[] {
    return this.#isSuspected ? [...this.#listed.values()].filter((listed) => listed !== undefined) : []
  }

  /** Reads the keys that the owner of a wait holds, then those that their waiters' owners hold, until no name is new. */
  async follow(wait: OwnersWait): Promise<void> {
    const { owners, namespace } = this.#client
    if (wait.owner === undefined) return
    const reached = new Set(
      owners.keysHeldBy(wait.owner, namedKeysMax + 1).map((scopeKey) => storeKey(namespace, scopeKey)),
    )
    let followed = 0
    // The set grows while it is iterated over.
    for (const key of reached) {
      if (followed === namedKeysMax) {
        this.isWhole = false
        break
      }
      followed += 1
      const listed = await this.#read(key, wait)
      for (const claim of listed?.claims ?? []) {
        if (claim.state !== 'waiting') continue
        for (const scopeKey of this.#holdsOf(claim)) reached.add(storeKey(namespace, scopeKey))
      }
    }
    // Otherwise nobody who waits for this owner holds what it waits for.
    if (reached.has(wait.key)) this.#isSuspected = true
  }

  #holdsOf({ runner }: ListedClaim): readonly string[] {
    const { holds = [] } = runner
    if (holds.length > 0) this.readers.add(runner.client)
    if (holds.length >= requestBounds.holdsMax) this.isWhole = false
    return holds
  }

  /** A key as this search first saw it. */
  async #read(key: string, { key: awaited, claimId }: OwnersWait): Promise<ListedKey | undefined> {
    if (this.#listed.has(key)) return this.#listed.get(key)
    // The own claim shows even if it is far back in the queue.
    const known = key === awaited ? claimId : undefined
    const page = await this.#client.driver.list({ key, ...(known !== undefined && { known }) })
    const listed = page.keys[0]
    this.#listed.set(key, listed)
    this.#count(page)
    return listed
  }

  #count({ now, keys }: KeyPage): void {
    this.now = now
    this.work += 1 + keys.reduce((claims, listed) => claims + listed.claims.length, 0)
  }

  /** Lists the namespace. */
  async scan(): Promise<readonly ListedKey[]> {
    const { driver, namespace } = this.#client
    const keys: ListedKey[] = []
    let after: string | undefined
    for (let pages = 0; pages < pagesMax; pages += 1) {
      const page = await driver.list({
        prefix: storeKey(namespace, ''),
        limit: 1000,
        ...(after !== undefined && { after }),
      })
      keys.push(...page.keys)
      this.#count(page)
      after = page.next
      if (after === undefined) break
    }
    for (const { claims } of keys) for (const claim of claims) if (claim.state === 'waiting') this.#holdsOf(claim)
    return keys
  }
}
