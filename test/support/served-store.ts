import type { KeyPage, ListQuery, LockDriver } from '../../src/core/contract/driver.ts'
import { serve, type LeaseholdServer } from '../../src/server/index.ts'
import type { Bench } from '../../src/testing/index.ts'
import { overNode, type NamedTransport } from './transports.ts'

/** A store to put behind a server. */
export interface ServedStore {
  /** One more driver on it, not opened. */
  make(): LockDriver
  advance(ms: number): Promise<void>
  /** Empties the store: from then on `make` opens a new one. */
  empty?(): Promise<void>
  /** True if the store keeps its data when the server restarts. */
  readonly lasts?: boolean
  discard?(): void
}

/**
 * Lends a store over HTTP. The suites identify claims by their ids, which a server hides: the ids are read from the
 * store itself, and it is an error if the server shows one that the caller does not know.
 */
export async function servedBench(store: ServedStore, transport: NamedTransport = overNode): Promise<Bench> {
  const drivers: LockDriver[] = []
  let beside: LockDriver
  let server: LeaseholdServer
  const start = async (): Promise<void> => {
    beside = store.make()
    await beside.open()
    server = await serve({ driver: store.make(), port: 0 })
  }
  const stop = async (): Promise<void> => {
    await server.close()
    await beside.close()
  }
  const startAgain = async (): Promise<void> => {
    await stop()
    await start()
  }
  await start()
  return {
    async driver() {
      const driver = transport.http(server.url)
      await driver.open()
      const direct = beside
      const list = driver.list.bind(driver)
      driver.list = async (query) => withIds(await list(query), direct, query)
      drivers.push(driver)
      return driver
    },
    advance: (ms) => store.advance(ms),
    ...(store.lasts === true && { restart: startAgain }),
    ...(store.empty !== undefined && {
      async empty() {
        await store.empty?.()
        await startAgain()
      },
    }),
    async close() {
      await Promise.all(drivers.map((driver) => driver.close()))
      await stop()
      store.discard?.()
    },
  }
}

/** The ids of the store's own page, claim by claim. */
async function withIds(page: KeyPage, store: LockDriver, query: ListQuery): Promise<KeyPage> {
  const shown = page.keys.flatMap(({ claims }) => claims.filter(({ id }) => id !== '' && id !== query.known))
  if (shown.length > 0) throw new Error(`The server shows ids: ${JSON.stringify(shown)}`)
  const direct = await store.list(query)
  return {
    ...page,
    keys: page.keys.map(({ claims, ...listed }, place) => ({
      ...listed,
      claims: claims.map((claim, index) => ({ ...claim, id: direct.keys[place]?.claims[index]?.id ?? '' })),
    })),
  }
}
