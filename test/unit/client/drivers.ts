import { documentDriver } from '../../../src/core/document-driver.ts'
import type { LockDriver } from '../../../src/core/driver.ts'
import type { Environment } from '../../../src/core/time/environment.ts'
import type { DocumentShelf } from '../support/document-shelf.ts'
import { unavailable, type Line } from './line.ts'

/** What a store can do less than all: it tells no news, or it keeps no queue either. */
export type Limit = 'silent' | 'without queue'

const nothingToDispose: Disposable = { [Symbol.dispose]: () => {} }

/** The driver of a process whose store does the work. */
export function driverOver(line: Line, store: LockDriver, limit?: Limit): LockDriver {
  const { supports } = store
  return {
    name: store.name,
    supports: limit === undefined ? supports : { ...supports, push: false, queue: limit !== 'without queue' },
    open: async () => {},
    async send(requests) {
      const standings = await line.ask(() => store.send(requests))
      return standings ?? requests.map(() => ({ state: 'unknown', error: unavailable('There was no answer.') }))
    },
    list: (query) => line.read(() => store.list(query)),
    listen: (heard) => {
      if (limit !== undefined) return nothingToDispose
      return store.listen?.((...news) => line.tell(() => heard(...news))) ?? nothingToDispose
    },
    close: async () => {},
  }
}

/** The driver of a process that does the work itself, on documents it reads and swaps. */
export function documentDriverOver(line: Line, shelf: DocumentShelf, environment: Environment): LockDriver {
  const store = shelf.store()
  return documentDriver(
    {
      ...store,
      load: (keys) => line.read(() => store.load(keys)),
      async swap(swaps) {
        const swapped = await line.ask(() => store.swap(swaps))
        return swapped ?? swaps.map(() => ({ unknown: unavailable('There was no answer.') }))
      },
      list: (query) => line.read(() => store.list(query)),
      listen: (heard) => store.listen?.((...news) => line.tell(() => heard(...news))) ?? nothingToDispose,
      close: async () => {},
    },
    environment,
  )
}
