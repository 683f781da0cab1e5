import type { Scope } from '../core/contract/scope.ts'
import type { Lease } from './lease.ts'
import type { AcquireOptions } from './options.ts'

/** The function that `run` calls while the lock is held. */
export type Body<Result> = (lease: Lease) => Result | Promise<Result>

/** The arguments of `run` after the scope: the options may be left out. For test doubles, which implement `run` once. */
export type RunArguments<Result> = [Body<Result>] | [AcquireOptions, Body<Result>]

/** A lock to be taken again and again with the same options: what `locks.lock` gives. */
export interface Lock {
  /** What is locked. */
  readonly scope: Scope
  /** Waits for the lock. Rejects on timeout or abort, leaving no claim behind. */
  acquire(options?: AcquireOptions): Promise<Lease>
  /** The lock if it can be had at once, else null. Waits only if `wait` says so. */
  tryAcquire(options?: AcquireOptions): Promise<Lease | null>
  /** Runs `body` while the lock is held, and lets go whatever happens. */
  run<Result>(body: Body<Result>): Promise<Result>
  run<Result>(options: AcquireOptions, body: Body<Result>): Promise<Result>
}
