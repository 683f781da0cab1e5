import { documentDriver } from '../../../src/drivers/document/driver.ts'
import type { LockDriver } from '../../../src/core/contract/driver.ts'
import type { Environment } from '../../../src/core/time/environment.ts'
import { documentsOverNetwork, overNetwork, type NetworkLink } from '../../../src/testing/simulation/network.ts'
import type { DocumentShelf } from '../support/document-shelf.ts'

/** What a store can do less than all: it tells no news, or it keeps no queue either. */
export type Limit = 'silent' | 'without queue'

const nothingToDispose: Disposable = { [Symbol.dispose]: () => {} }

/** The driver of a process whose store does the work. */
export function driverOver(line: NetworkLink, store: LockDriver, limit?: Limit): LockDriver {
  const driver = overNetwork(line, store)
  if (limit === undefined) return driver
  const supports = { ...store.supports, push: false, queue: limit !== 'without queue' }
  return { ...driver, supports, listen: () => nothingToDispose }
}

/** The driver of a process that does the work itself, on documents it reads and swaps. */
export function documentDriverOver(line: NetworkLink, shelf: DocumentShelf, environment: Environment): LockDriver {
  return documentDriver(documentsOverNetwork(line, shelf.store()), environment)
}
