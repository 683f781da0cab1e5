import type { LockDriver } from '../core/contract/driver.ts'

/** One fresh store, with as many drivers on it as a test wants. */
export interface Bench {
  /** A new driver on the same store, already opened: another client, as if in another process. */
  driver(): Promise<LockDriver>
  /** Moves the store's time on. A store whose clock cannot be moved waits instead. */
  advance(ms: number): Promise<void>
  /** Restarts the store with its data. Drivers made before may be dead afterwards. */
  restart?(): Promise<void>
  /** Restarts the store without its data. Drivers made before may be dead afterwards. */
  empty?(): Promise<void>
  /** Closes the drivers and throws the store away. */
  close(): Promise<void>
}

/** How a driver's author lends a store to the tests of `leasehold/testing`. */
export interface Harness {
  open(): Promise<Bench>
  /**
   * The step in which the tests count time. A store that waits instead of moving its clock wants it short, yet well above
   * the time a request takes. No ttl is shorter than this.
   *
   * @default 1000
   */
  readonly tickMs?: number | undefined
  /**
   * How far the times that the store reports may be off; 0 for a clock that only `advance` moves.
   *
   * @default 0
   */
  readonly toleranceMs?: number | undefined
  /**
   * How long a pushed notification may take, in turns of the waiting process.
   *
   * @default 10_000
   */
  readonly notifiedWithinMs?: number | undefined
  /**
   * True: benches share nothing, so tests that mostly wait may run side by side.
   *
   * @default false
   */
  readonly apart?: boolean | undefined
  /**
   * Titles of facts that cannot hold for this store, for reasons that its page gives.
   *
   * @default []
   */
  readonly except?: readonly string[] | undefined
  /**
   * True: a conversion that is granted begins its lease anew, and does not end with the lease that it replaces.
   *
   * @default false
   * @internal
   */
  readonly conversionsBeginAnew?: boolean | undefined
}

/** The harness with its defaults filled in. @internal */
export interface Terms {
  readonly tickMs: number
  readonly toleranceMs: number
  readonly notifiedWithinMs: number
  readonly conversionsBeginAnew: boolean
}

/** Fills in the defaults of a harness. @internal */
export function termsOf(harness: Harness): Terms {
  return {
    tickMs: harness.tickMs ?? 1000,
    toleranceMs: harness.toleranceMs ?? 0,
    notifiedWithinMs: harness.notifiedWithinMs ?? 10_000,
    conversionsBeginAnew: harness.conversionsBeginAnew ?? false,
  }
}
