import type { TcpProxy } from '../../test/support/tcp-proxy.ts'

/** The most client processes of a run: stores have a proxy for each. */
export const processesMax = 8

/** Ends a fault. */
export type Heal = () => Promise<void> | void

/** A fault of a store's own, beside those of clients and of connections. */
export interface StoreFault {
  /**
   * Holders may lose their locks before they know: the store forgets, or its clock runs ahead. Holds of that time count as
   * uncertain; their fences must still be in order.
   */
  readonly forgets?: boolean
  /** Happens now. `choice` says where: modulo how many places there are. Resolves to what ends it. */
  readonly begin: (choice: number, crew: WholeCrew) => Promise<Heal> | Heal
}

/** All clients, for faults that none of them survives. */
export interface WholeCrew {
  killAll(): void
  /** Resolves once those that were killed are gone. */
  ended(): Promise<void>
  replaceAll(): Promise<void>
}

/** What the chaos needs of a store. One file in `stores/` makes one. */
export interface ChaosStore {
  /** Where a client connects: through a proxy if the store has connections. `slot` counts the client processes. */
  readonly url: (slot: number) => string
  /** Where nothing is in between: to look at the store at the end. */
  readonly directUrl: string
  /** What faults of the network strike. Empty: clients and store share no connections. */
  readonly proxies: readonly TcpProxy[]
  /** By name, in words. */
  readonly faults: Readonly<Record<string, StoreFault>>
  /** Names of faults that happen more often, once more for each time that they are named. */
  readonly often?: readonly string[]
  /** The clients' clocks stay right, as the store loses data and its fences come from them. */
  readonly keepsClocks?: boolean
  /** Environment variables of clients. */
  readonly environment?: Readonly<Record<string, string>>
  /** The least ttl that makes sense. Default: 2000. */
  readonly ttlMs?: number
  /** How many locks one worker of a client takes at once. Default: 50. */
  readonly manyAtOnce?: number
  /** What is left of the store's own when all clients have gone, beside locks: files, connections. */
  readonly left?: () => Promise<readonly string[]>
  readonly stop: () => Promise<void>
}
