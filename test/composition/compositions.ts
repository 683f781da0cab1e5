/** What may stand between a client and its store, for a matrix of compositions. */
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { http } from '../../src/drivers/http/driver.ts'
import { quorum } from '../../src/drivers/quorum/driver.ts'
import { serve, type LeaseholdServer } from '../../src/server/index.ts'
import type { Locks } from '../../src/index.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'
import type { MakeStore, MatrixStore } from './stores.ts'
import type { MatrixTime } from './time.ts'

/** By how much each owner's clock is wrong. */
export interface ClocksOff {
  readonly storeMs?: number
  readonly serverMs?: number
}

/** A composition that is up, and what can be done to it. */
export interface Setting {
  /** A driver for one more client, whose wall clock is wrong by so much. */
  driver(wallOffMs?: number): LockDriver
  /** Opens it for one more client, where a driver alone is not enough. */
  connect?(): Promise<Locks>
  readonly faults: Readonly<Partial<Record<Fault, () => Promise<void>>>>
  /** Keeps a copy of the store, where it can be restored. */
  copy(): Promise<void>
  /** How long until it grants anything. */
  readonly readyAfterMs: number
  close(): Promise<void>
}

export type Fault =
  | 'connections end'
  | 'the store is killed, and comes back with its data'
  | 'the process in between is killed, and comes back'
  | 'the store comes back empty'
  | 'every store comes back empty'
  | 'the store is restored from an older copy'
  | 'every store is restored from an older copy'

export interface Composition {
  readonly name: string
  up(make: MakeStore, time: MatrixTime, off?: ClocksOff): Promise<Setting>
}

/** The client opens the store itself. */
export const alone: Composition = {
  name: 'alone',
  async up(make, time, { storeMs } = {}) {
    const store = await make(time, storeMs)
    return {
      driver: () => time.follow(store.driver(false)),
      faults: faultsOf([store]),
      copy: async () => store.copy?.(),
      readyAfterMs: 0,
      close: () => store.discard(),
    }
  },
}

/** The client opens the store itself, and renews from a second thread as well. */
export const withThread: Composition = {
  name: 'with a heartbeat thread',
  async up(make, time, { storeMs } = {}) {
    const store = await make(time, storeMs)
    const { url = '' } = store
    // A thread needs built code.
    const built = pathToFileURL(path.resolve('.build/src/index.js')).href
    const { connect } = (await import(built)) as typeof import('../../src/index.ts')
    return {
      driver: () => time.follow(store.driver(false)),
      connect: () => connect(url, { heartbeatThread: true }),
      faults: faultsOf([store]),
      copy: async () => store.copy?.(),
      readyAfterMs: 0,
      close: () => store.discard(),
    }
  },
}

/** `hops` servers, one in front of the other, and a wire in front of each. */
export function behindServers(hops: number): Composition {
  return {
    name: hops === 1 ? 'behind a server' : `over ${hops} hops`,
    async up(make, time, { storeMs, serverMs } = {}) {
      const store = await make(time, storeMs)
      const chain = await Chain.up(store, hops, time, serverMs)
      return {
        driver: () => time.follow(http(chain.url)),
        faults: {
          ...faultsOf([store]),
          'connections end': async () => {
            await store.endConnections?.()
            chain.endConnections()
          },
          'the process in between is killed, and comes back': () => chain.restart(),
        },
        copy: async () => store.copy?.(),
        readyAfterMs: 0,
        async close() {
          await chain.close()
          await store.discard()
        },
      }
    },
  }
}

/** A quorum of three stores, behind servers or not. */
export function quorumOf(
  name: string,
  { served = false, votesAfterMs = 60_000, otherStores = [] as readonly MakeStore[] } = {},
): Composition {
  return {
    name,
    async up(make, time, { storeMs, serverMs } = {}) {
      // Only the first store's clock is wrong.
      const makes = [make, ...(otherStores.length === 0 ? [make, make] : otherStores)]
      const stores = await Promise.all(makes.map((each, place) => each(time, place === 0 ? storeMs : undefined)))
      const chains = served ? await Promise.all(stores.map((store) => Chain.up(store, 1, time, serverMs))) : []
      const nodes = (): LockDriver[] =>
        stores.map((store, place) => time.follow(served ? http(chains[place]?.url ?? '') : store.driver(false)))
      return {
        driver: (wallOffMs) => {
          const environment = time.environment(wallOffMs)
          return time.follow(quorum(nodes(), { votesAfter: votesAfterMs, environment }))
        },
        faults: {
          ...faultsOf(stores),
          ...(served && {
            'connections end': async () => chains.forEach((chain) => chain.endConnections()),
            'the process in between is killed, and comes back': async () => {
              await Promise.all(chains.map((chain) => chain.restart()))
            },
          }),
        },
        copy: async () => void (await Promise.all(stores.map(async (store) => store.copy?.()))),
        readyAfterMs: votesAfterMs + 500,
        async close() {
          await Promise.all(chains.map((chain) => chain.close()))
          await Promise.all(stores.map((store) => store.discard()))
        },
      }
    },
  }
}

/** The faults that the stores offer: a fault befalls all of them, so each store must offer it. */
function faultsOf(stores: readonly MatrixStore[]): Setting['faults'] {
  const [store] = stores
  if (store === undefined) return {}
  const can = (ability: Doing): boolean => stores.every((each) => ability in each)
  const does = (of: readonly MatrixStore[], ability: Doing) => async (): Promise<void> => {
    await Promise.all(of.map(async (each) => each[ability]?.()))
  }
  return {
    ...(can('endConnections') && { 'connections end': does([store], 'endConnections') }),
    ...(can('restarts') && { 'the store is killed, and comes back with its data': does([store], 'restarts') }),
    ...(can('comesBackEmpty') && { 'the store comes back empty': does([store], 'comesBackEmpty') }),
    ...(can('restore') && { 'the store is restored from an older copy': does([store], 'restore') }),
    ...(stores.length > 1 && {
      'every store comes back empty': does(stores, 'comesBackEmpty'),
      ...(can('restore') && { 'every store is restored from an older copy': does(stores, 'restore') }),
    }),
  }
}

/** A fault that a store may offer. */
type Doing = 'comesBackEmpty' | 'restore' | 'restarts' | 'endConnections'

/** Servers in front of a store, each reached through a wire that can be cut. */
class Chain {
  readonly #store: MatrixStore
  readonly #time: MatrixTime
  readonly #wallOffMs: number | undefined
  readonly #servers: LeaseholdServer[] = []
  readonly #ports: number[] = []
  readonly #wires: TcpProxy[] = []

  private constructor(store: MatrixStore, time: MatrixTime, wallOffMs: number | undefined) {
    this.#store = store
    this.#time = time
    this.#wallOffMs = wallOffMs
  }

  static async up(store: MatrixStore, hops: number, time: MatrixTime, wallOffMs: number | undefined): Promise<Chain> {
    const chain = new Chain(store, time, wallOffMs)
    for (let hop = 0; hop < hops; hop += 1) {
      await chain.#start(hop, 0)
      chain.#wires.push(await TcpProxy.start({ port: chain.#ports[hop] ?? 0 }))
    }
    return chain
  }

  get url(): string {
    return `http://127.0.0.1:${this.#wires.at(-1)?.port}`
  }

  endConnections(): void {
    for (const wire of this.#wires) wire.cut()
  }

  /** Restarts all servers, as if their machine had failed. A store inside a server's process is lost with it. */
  async restart(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.close()))
    if (this.#store.livesInServer === true) await this.#store.comesBackEmpty?.()
    for (const [hop, port] of this.#ports.entries()) await this.#start(hop, port)
  }

  async close(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.close()))
    await Promise.all(this.#wires.map((wire) => wire.stop()))
  }

  async #start(hop: number, port: number): Promise<void> {
    const inner = this.#wires[hop - 1]
    const driver = inner === undefined ? this.#store.driver(true) : http(`http://127.0.0.1:${inner.port}`)
    const environment = this.#time.environment(this.#wallOffMs)
    const server = await serve({ driver, port, environment, limits: { drainWithinMs: 1 } })
    this.#servers[hop] = server
    this.#ports[hop] = Number(new URL(server.url).port)
  }
}
