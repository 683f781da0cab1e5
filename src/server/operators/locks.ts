import type { ListedKey, LockDriver } from '../../core/driver.ts'
import type { Environment } from '../../core/time/environment.ts'
import { storeKey } from '../../core/scope.ts'
import type { OperatorsLock, OperatorsLockPage } from '../../dashboard/documents.ts'
import type { Grant } from '../call.ts'
import { namespaceOf } from '../rights.ts'
import { Cursors } from './cursor.ts'
import { lockView } from './lock-view.ts'
import type { LockQuery, LockState } from './query.ts'

/** Reads of the store for one page: where a filter matches little, the page is short rather than late. */
const readsMax = 10

/** The locks a grant may see, page by page. */
export class LockPages {
  readonly #driver: Pick<LockDriver, 'list'>
  readonly #environment: Pick<Environment, 'wall'>
  readonly #cursors = new Cursors()

  constructor(driver: Pick<LockDriver, 'list'>, environment: Pick<Environment, 'wall'>) {
    this.#driver = driver
    this.#environment = environment
  }

  async read(grant: Grant, query: LockQuery): Promise<OperatorsLockPage> {
    const { limit } = query
    const locks: OperatorsLock[] = []
    let { after, shown } = query.after === undefined ? nowhere : this.#cursors.open(query.after)
    for (let reads = 0; reads < readsMax; reads += 1) {
      const page = await this.#driver.list({
        ...prefixOf(query),
        // Whoever filters reads on; a small page would mean many reads.
        limit: isFiltered(query) ? 1000 : limit,
        ...(after !== undefined && { after }),
      })
      const wall = this.#environment.wall()
      for (const listed of behind(page.keys, shown)) {
        if (!grant.covers(namespaceOf(listed.key))) continue
        const lock = lockView(listed, page.now, wall)
        if (!matches(lock, query)) continue
        if (locks.length === limit) return { locks, next: this.#cursors.seal({ after, shown: locks.at(-1)?.key }) }
        locks.push(lock)
      }
      shown = undefined
      after = page.next
      if (after === undefined) return { locks, next: undefined }
    }
    return { locks, next: this.#cursors.seal({ after, shown: undefined }) }
  }
}

const nowhere = { after: undefined, shown: undefined }

/** Keys that were not on the page before. If the last one shown is gone, all: better twice than never. */
function behind(keys: readonly ListedKey[], shown: string | undefined): readonly ListedKey[] {
  return keys.slice(keys.findIndex(({ key }) => key === shown) + 1)
}

function prefixOf({ namespace, prefix }: LockQuery): { readonly prefix?: string } {
  if (namespace === undefined) return {}
  return { prefix: storeKey(namespace, prefix === undefined ? '' : `named:${prefix}`) }
}

function isFiltered({ namespace, prefix, name, state }: LockQuery): boolean {
  return name !== undefined || state !== undefined || (prefix !== undefined && namespace === undefined)
}

function matches(lock: OperatorsLock, { prefix, name, state }: LockQuery): boolean {
  if (prefix !== undefined && !lock.scope.startsWith(prefix)) return false
  if (name !== undefined && !lock.scope.toLowerCase().includes(name.toLowerCase())) return false
  return state === undefined || isIn(lock, state)
}

function isIn({ holders, waiters }: OperatorsLock, state: LockState): boolean {
  switch (state) {
    case 'held':
      return holders.some((claim) => !claim.expired)
    case 'waited-for':
      return waiters.length > 0
    case 'expired':
      return holders.some((claim) => claim.expired)
    case 'leaving':
      return holders.some((claim) => claim.leaving !== undefined)
  }
}
