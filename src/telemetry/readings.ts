import type { Client } from '../api/client/client.ts'
import type { Locks } from '../api/locks.ts'
import { internalsOf } from '../api/client/locks-internals.ts'
import type { Environment } from '../core/time/environment.ts'
import type { Statistics } from '../api/operators/statistics.ts'
import { settledWithin } from '../core/time/bounded.ts'
import { positiveMs, type Duration } from '../core/time/duration.ts'

/** What a client has in hand now. @internal */
export interface ClientReading {
  readonly leasesHeld: number
  readonly heartbeats: number
  readonly pending: number
  /** Of the lease nearest its end; undefined if there is none. */
  readonly remainingSeconds: number | undefined
}

/** Asks nobody: this can be had also while the store is away. @internal */
export function readClient({ leases, acquisitions }: Client): ClientReading {
  let heartbeats = 0
  let remainingMs = Infinity
  for (const lease of leases) {
    if (!lease.held) continue
    remainingMs = Math.min(remainingMs, lease.remainingMs)
    if (lease.heartbeating) heartbeats += 1
  }
  return {
    // After the look at each: those that turned out to be over have left.
    leasesHeld: leases.size,
    heartbeats,
    pending: acquisitions.size,
    remainingSeconds: leases.size === 0 ? undefined : remainingMs / 1000,
  }
}

/** How the store is looked at. */
export interface StoreReadingOptions {
  /**
   * Whether the store is listed each time somebody looks, for the number of locks and whether it can be reached. Costs a
   * request for every thousand locks of the namespace.
   *
   * @default true
   */
  readonly store?: boolean | undefined
  /**
   * How long the store may take for that before it counts as down.
   *
   * @default '5s'
   */
  readonly storeWithin?: Duration | undefined
}

/** Lists the store, once at a time however many ask. @internal */
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

  /** Undefined if the store does not answer, or not in time. Never rejects. */
  read(): Promise<Statistics | undefined> {
    // One that hangs is not asked again: whoever comes meanwhile waits for the same answer, as long as it may take.
    this.#underWay ??= this.#list().finally(() => (this.#underWay = undefined))
    return settledWithin(this.#environment, this.#withinMs, this.#underWay)
  }

  async #list(): Promise<Statistics | undefined> {
    try {
      return await this.#locks.stats()
    } catch {
      return undefined
    }
  }
}
