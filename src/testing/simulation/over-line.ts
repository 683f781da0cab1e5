import type { DocumentStore } from '../../core/document-driver.ts'
import type { LockDriver, ClaimStatus } from '../../core/driver.ts'
import { unavailable, type Line } from './line.ts'

const unanswered: ClaimStatus = { state: 'unknown', error: unavailable('There was no answer.') }
const nothingToDispose: Disposable = { [Symbol.dispose]: () => {} }

/** The driver of a process whose store does all the work itself: what it asks, hears and is told goes over the line. */
export function overLine(line: Line, store: LockDriver): LockDriver {
  return {
    name: store.name,
    supports: store.supports,
    open: async () => {},
    async send(requests) {
      const statuses = await line.ask(() => store.send(requests))
      return statuses ?? requests.map(() => unanswered)
    },
    list: (query) => line.read(() => store.list(query)),
    listen: (onNotification) =>
      store.listen?.((...notifications) => line.deliver(() => onNotification(...notifications))) ?? nothingToDispose,
    ...(store.dataAgeMs !== undefined && { dataAgeMs: () => line.read(async () => (await store.dataAgeMs?.()) ?? 0) }),
    close: async () => {},
  }
}

/** The documents of a process that does the work itself, for `documentDriver`: what it reads and swaps goes over the line. */
export function documentsOverLine<Revision>(line: Line, store: DocumentStore<Revision>): DocumentStore<Revision> {
  return {
    name: store.name,
    supports: store.supports,
    open: async () => {},
    load: (keys) => line.read(() => store.load(keys)),
    async swap(swaps) {
      const swapped = await line.ask(() => store.swap(swaps))
      return swapped ?? swaps.map(() => ({ unknown: unavailable('There was no answer.') }))
    },
    list: (query) => line.read(() => store.list(query)),
    listen: (onNotification) =>
      store.listen?.((...notifications) => line.deliver(() => onNotification(...notifications))) ?? nothingToDispose,
    ...(store.dataAgeMs !== undefined && { dataAgeMs: () => line.read(async () => (await store.dataAgeMs?.()) ?? 0) }),
    close: async () => {},
    async fast(requests) {
      // Nothing is fast: the rule decides.
      if (store.fast === undefined) return requests.map(() => undefined)
      return (await line.ask(() => store.fast?.(requests))) ?? requests.map(() => unanswered)
    },
    takesNote: (key, change) => store.takesNote?.(key, change) ?? false,
    notify: (notifications) => store.notify?.(notifications),
  }
}
