import type { Client } from '../api/client/client.ts'
import type { Locks } from '../api/locks.ts'
import { internalsOf } from '../api/client/locks-internals.ts'
import type { Environment } from '../core/time/environment.ts'
import type { Statistics } from '../api/operators/statistics.ts'
import { settledWithin } from '../core/time/bounded.ts'
import { positiveMs, type Duration } from '../core/time/duration.ts'

/** The state of a client. @internal */
export interface ClientReading {
  readonly leasesHeld: number
  readonly heartbeats: number
  readonly pending: number
  /** The time left of the lease that expires first; undefined without a lease. */
  readonly remainingSeconds: number | undefined
}

/** Reads the state of a client, without asking the store. @internal */
export function readClient({ leases, acquisitions }: Client): ClientReading {
  let leasesHeld = 0
  let heartbeats = 0
  let remainingMs = Infinity
  for (const lease of leases) {
    if (!lease.held) continue
    leasesHeld += 1
    remainingMs = Math.min(remainingMs, lease.remainingMs)
    if (lease.heartbeating) heartbeats += 1
  }
  return {
    leasesHeld,
    heartbeats,
    pending: acquisitions.size,
    remainingSeconds: leasesHeld === 0 ? undefined : remainingMs / 1000,
  }
}

/** Whether and how the store is read for metrics. */
export interface StoreReadingOptions {
  /**
   * Whether each collection lists the store, for the number of locks and whether it can be reached. Costs one request for
   * every thousand locks of the namespace.
   *
   * @default true
   */
  readonly store?: boolean | undefined
  /**
   * How long listing may take before the store counts as down.
   *
   * @default '5s'
   */
  readonly storeWithin?: Duration | undefined
}

/** Lists the store. Concurrent reads share one listing. @internal */
export class StoreReader {
  readonly #locks: Locks
  readonly #environment: Environment
  readonly #withinMs: number
  #underWay: Promise<Statistics | undefined> | undefined

  constructor(locks: Locks, storeWithin: Duration = '5s') {
    this.#locks = locks
    this.#environment = internalsOf(locks, 'store').client.environment
    this.#withinMs = positiveMs(storeWithin, 'storeWithin')
  }

  /** Resolves to undefined if the store does not answer in time. Never rejects. */
  read(): Promise<Statistics | undefined> {
    // If a listing hangs, start no second one: later reads share it, each with its own time limit.
    this.#underWay ??= this.#list().finally(() => (this.#underWay = undefined))
    return settledWithin(this.#environment, this.#withinMs, this.#underWay)
  }

  async #list(): Promise<Statistics | undefined> {
    try {
      const found = await this.#locks.stats()
      return found.storeError === undefined ? found : undefined
    } catch {
      return undefined
    }
  }
}
