import type { Runner } from '../core/driver.ts'
import type { EventName, Listener } from '../core/events.ts'
import { describeScope, toScope, type ScopeLike } from '../core/scope.ts'
import { acquireAll, type LeaseSet } from './acquire-all.ts'
import { exclusively } from './acquisition.ts'
import type { Client } from './client.ts'
import { Election, type ElectionOptions } from './primitives/election.ts'
import { resume } from './hand-off.ts'
import {
  explainLock,
  inspectLock,
  listLocks,
  type ListOptions,
  type LockInfo,
  type LockPage,
  type LockStatus,
} from './operators/inspection.ts'
import type { Lease } from './lease.ts'
import { evictHolders, statusOf, sweepLocks, type EvictOptions } from './operators/operators.ts'
import { runOnce, type OnceOptions, type OnceResult } from './primitives/once.ts'
import type { AcquireOptions, Terms } from './options.ts'
import { checkProof, type LeaseProof } from './proof.ts'
import { readWriteLock, type ReadWriteLock } from './primitives/read-write.ts'
import { semaphoreOf, type Semaphore } from './primitives/semaphore.ts'
import { gatherStatistics, type Statistics } from './operators/statistics.ts'
import { claimTask, type TaskClaim, type TaskOptions } from './primitives/task.ts'
import { Taker, type Body, type Lock, type RunArguments } from './taker.ts'
import { verifyProof, type Verified } from './verify.ts'

/** All locks of one namespace of one store. Made by `connect` or `createLocks`. */
export class Locks implements AsyncDisposable {
  readonly #client: Client
  readonly #taker: Taker

  /** @internal */
  constructor(client: Client, defaults: AcquireOptions) {
    this.#client = client
    this.#taker = new Taker(client, defaults)
  }

  /** Who this client is to others. */
  get runner(): Runner {
    return this.#client.runner
  }

  get namespace(): string {
    return this.#client.namespace
  }

  /** @internal For what this package builds on top: `src/web-locks/` claims through it. */
  get client(): Client {
    return this.#client
  }

  /** @internal The options of one acquisition and the defaults, checked. */
  terms(options: AcquireOptions): Terms {
    return this.#taker.terms(options)
  }

  /** Waits for the lock. Rejects on timeout or abort, leaving no claim behind. */
  acquire(scope: ScopeLike, options?: AcquireOptions): Promise<Lease> {
    return this.#taker.acquire(scope, exclusively, options)
  }

  /** The lock if it is free, else null. Waits only if `wait` says so. */
  tryAcquire(scope: ScopeLike, options?: AcquireOptions): Promise<Lease | null> {
    return this.#taker.tryAcquire(scope, exclusively, options)
  }

  /**
   * Runs `body` while the lock is held, and lets go whatever happens. Rejects with the body's error if there is one, else
   * with LOST if the lock was lost before the body had finished.
   */
  run<Result>(scope: ScopeLike, body: Body<Result>): Promise<Result>
  run<Result>(scope: ScopeLike, options: AcquireOptions, body: Body<Result>): Promise<Result>
  run<Result>(scope: ScopeLike, ...rest: RunArguments<Result>): Promise<Result> {
    return this.#taker.run(scope, exclusively, ...rest)
  }

  /**
   * All of these locks or none, within one `wait`. Cannot deadlock with another `acquireAll`. A scope that another one covers
   * needs no lease of its own and gets none; ranges that overlap otherwise are INVALID.
   */
  acquireAll(scopes: readonly ScopeLike[], options?: AcquireOptions): Promise<LeaseSet> {
    return acquireAll(this.#taker, scopes, options)
  }

  /** The same lock, with the same options, again and again. */
  lock(scope: ScopeLike, options: AcquireOptions = {}): Lock {
    return this.#taker.lock(toScope(scope), exclusively, options)
  }

  /** A lock for many readers or one writer. */
  readWrite(scope: ScopeLike, options: AcquireOptions = {}): ReadWriteLock {
    return readWriteLock(this.#taker, toScope(scope), options)
  }

  /** A lock that `permits` may hold at once. Everybody must use the same number: another is told SCOPE_MISMATCH. */
  semaphore(scope: ScopeLike, permits: number, options: AcquireOptions = {}): Semaphore {
    return semaphoreOf(this.#taker, toScope(scope), permits, options)
  }

  /** An office that one of many clients holds. */
  elect(name: string, options: ElectionOptions = {}): Election {
    return new Election(this.#taker, name, options)
  }

  /**
   * Runs a scheduled job on one of many machines: on whichever asks first, unless somebody ran it within `atLeast`. Tells
   * whether it ran here.
   */
  once<Result>(name: string, options: OnceOptions, body: Body<Result>): Promise<OnceResult<Result>> {
    return runOnce(this.#taker, name, options, body)
  }

  /** Claims a task of a queue: no two workers have it at once, and a worker that crashes loses it. */
  claim(queue: string, taskId: string, options?: TaskOptions): Promise<TaskClaim> {
    return claimTask(this.#taker, queue, taskId, options)
  }

  /** Takes over a lease that another process handed off: pass what its `handOff()` gave. Its fence stays the same. */
  async resume(proof: LeaseProof, options?: AcquireOptions): Promise<Lease> {
    checkProof(proof)
    const ttl = options?.ttl ?? proof.ttlMs
    return resume(this.#client, proof, this.#taker.terms({ ...options, ttl }))
  }

  /** A page of what is held and waited for in this namespace. */
  async list(options?: ListOptions): Promise<LockPage> {
    this.#client.refuseIfClosed()
    return listLocks(this.#client, options)
  }

  /** Who holds a lock and who waits for it; null if nobody does. For a byte range: those that overlap it. */
  async inspect(scope: ScopeLike): Promise<LockInfo | null> {
    this.#client.refuseIfClosed()
    return inspectLock(this.#client, toScope(scope))
  }

  /** What stands in whose way, in sentences. */
  async explain(scope: ScopeLike): Promise<string> {
    const wanted = toScope(scope)
    return explainLock(describeScope(wanted), await this.inspect(wanted))
  }

  /** Whether a lock is held, by whom and since when. */
  async status(scope: ScopeLike): Promise<LockStatus> {
    return statusOf(await this.inspect(scope))
  }

  /**
   * Takes the lock from its holders at once, or from the one with `fence`; of an inode with ranges, from those that overlap
   * what is named. For operators: the holder is told, but it may be writing still; only its fence protects. Needs
   * `allowForce`. Gives how many were evicted.
   */
  async evict(scope: ScopeLike, options: EvictOptions): Promise<number> {
    this.#client.refuseIfClosed()
    return evictHolders(this.#client, toScope(scope), options)
  }

  /** Clears away leases that are over and that nobody has asked about since. Gives how many locks that concerned. */
  async sweep(): Promise<number> {
    this.#client.refuseIfClosed()
    return sweepLocks(this.#client)
  }

  /** Counters since `connect`, and how the namespace looks now. */
  async stats(): Promise<Statistics> {
    this.#client.refuseIfClosed()
    return gatherStatistics(this.#client)
  }

  /** Asks the store whether a proof from another process stands for a lease on `scope`. */
  async verify(proof: LeaseProof, scope: ScopeLike): Promise<Verified> {
    this.#client.refuseIfClosed()
    return verifyProof(this.#client, proof, toScope(scope))
  }

  /** Calls `listener` on every such event until it is disposed of. */
  on<Name extends EventName>(name: Name, listener: Listener<Name>): Disposable {
    return this.#client.events.on(name, listener)
  }

  /** Releases what is held, ends what waits, and lets go of the store. */
  close(): Promise<void> {
    return this.#client.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}
