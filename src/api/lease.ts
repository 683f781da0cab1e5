import type { Runner } from '../core/contract/driver.ts'
import type { LeaseholdError } from '../core/errors.ts'
import type { Scope } from '../core/contract/scope.ts'
import type { Duration } from '../core/time/duration.ts'
import type { WaitOptions } from './options.ts'
import type { LeaseProof } from './lease/proof.ts'
import type { ReleaseResult } from './lease/release-result.ts'

/**
 * A lock in hand. Pass `fence` with every write, stop when `signal` fires, and release it: `await using` does.
 *
 * @example
 * ```ts
 * import { connect } from 'leasehold'
 *
 * await using locks = await connect('memory:')
 * await using lease = await locks.acquire('orders/42', { ttl: '30s' })
 * console.log(lease.fence, lease.held, lease.remainingMs)
 * lease.signal.addEventListener('abort', () => console.log(lease.loss?.reason))
 * ```
 */
export interface Lease extends AsyncDisposable {
  /** Grows with every grant of this lock: a resource that has seen a higher fence must refuse this one. */
  readonly fence: number
  /** What is locked. */
  readonly scope: Scope
  /** The key the store knows this lock by. */
  readonly key: string
  /** Who holds the lock: this process, and what it says of itself. */
  readonly runner: Runner
  /** When the lock was granted, as far as this process can tell. */
  readonly acquiredAt: Date
  /** Aborts when the lease is lost, with a LOST error that says why. A release does not abort it. */
  readonly signal: AbortSignal
  /** Whether the lease can still be trusted, by the clock now. */
  readonly held: boolean
  /** How long the lease can still be trusted if it is not renewed. */
  readonly remainingMs: number
  /** When the lease can no longer be trusted if it is not renewed. */
  readonly expiresAt: Date
  /** How long the lock has been held. */
  readonly heldMs: number
  /** Whether renewals go out by themselves. */
  readonly heartbeating: boolean
  /** The error this lease was lost with; undefined if it was not lost. */
  readonly loss: LeaseholdError | undefined
  /**
   * Sets the end of the lease to now plus `ttl`, which stays in force. Rejects with NOT_HELD once the lease is over, or has
   * been asked to leave.
   *
   * @param ttl How long the lease lasts from now on. Default: as long as before.
   */
  renew(ttl?: Duration): Promise<void>
  /**
   * Renews by itself from now on.
   *
   * @param every How often. Default: as often as it was acquired with, else every third of the ttl.
   */
  startHeartbeat(every?: Duration): void
  /** Stops renewing by itself. The lease runs out unless `renew` is called. */
  stopHeartbeat(): void
  /** Reports progress of the work: with the `progress` option the lease is renewed only while this is called. */
  progress(): void
  /** Releases the lock. Never rejects: if there was nothing to release, the result says why. */
  release(): Promise<ReleaseResult>
  /**
   * Turns a read lease into an exclusive one, ahead of every waiting claim. Resolves to a new lease with a new fence; this one
   * is then over. If the upgrade is refused, aborted or not granted in time, this lease stays as it is. If the store had
   * granted it by then, the new lease comes all the same. A second holder that wants to upgrade gets DEADLOCK: one of the two
   * must release.
   */
  upgrade(options?: WaitOptions): Promise<Lease>
  /** Lets readers in, those that wait at once. Resolves to a new lease; this one is over. */
  downgrade(): Promise<Lease>
  /**
   * Gives the lease to another process without releasing it: pass the result to `locks.resume` there. From then on the lease
   * lives by its ttl, whatever becomes of this process.
   *
   * @example
   * ```ts
   * const proof = JSON.stringify(await lease.handOff())
   * // In another process, whose own renewals keep it from here:
   * await using resumed = await locks.resume(JSON.parse(proof))
   * ```
   */
  handOff(): Promise<LeaseProof>
  /** A proof of this lease for a server: see `locks.verify`. The id in it is a secret. */
  toJSON(): LeaseProof
}

/** Several locks, held together: the result of `locks.acquireAll`. */
export interface LeaseSet extends AsyncDisposable {
  /** In the canonical order of their keys. */
  readonly leases: readonly Lease[]
  /** Aborts as soon as one of the leases is lost. */
  readonly signal: AbortSignal
  /** Whether all leases can still be trusted. */
  readonly held: boolean
  /** Releases all leases, in one batch. */
  release(): Promise<readonly ReleaseResult[]>
}
