import type { Runner } from '../core/contract/driver.ts'
import type { EventName, LockEventListener } from './client/events.ts'
import { describeScope, toScope, type ScopeLike } from '../core/contract/scope.ts'
import { acquireAll } from './primitives/acquire-all.ts'
import { exclusively } from './client/acquisition.ts'
import type { Client } from './client/client.ts'
import type { Election, ElectionOptions } from './primitives/election.ts'
import { LeaderElection } from './primitives/leader-election.ts'
import { resume } from './lease/resume.ts'
import {
  explainLock,
  inspectLock,
  listLocks,
  type ListOptions,
  type LockInfo,
  type LockPage,
  type LockStatus,
} from './operators/inspection.ts'
import type { Lease, LeaseSet } from './lease.ts'
import { Acquirer } from './client/acquirer.ts'
import type { Body, Lock, RunArguments } from './lock.ts'
import type { Locks } from './locks.ts'
import { keepInternals } from './client/locks-internals.ts'
import { evictHolders, lockStatusOf, sweepLocks, type EvictOptions } from './operators/operators.ts'
import { runOnce, type OnceOptions, type OnceResult } from './primitives/once.ts'
import type { AcquireOptions } from './options.ts'
import { checkProof, type LeaseProof, verifyProof, type Verified } from './lease/proof.ts'
import { readWriteLock, type ReadWriteLock, semaphoreOf, type Semaphore } from './primitives/shared.ts'
import { gatherStatistics, type Statistics } from './operators/statistics.ts'
import { claimTask, type TaskClaim, type TaskOptions } from './primitives/task.ts'
import { TaskLoop } from './primitives/work-loop.ts'
import type { JobHandler, WorkLoop, WorkOptions } from './primitives/work.ts'

/** The locks of one client, over one driver. */
export class LocksClient implements Locks {
  readonly #client: Client
  readonly #acquirer: Acquirer

  constructor(client: Client, defaults: AcquireOptions) {
    const acquirer = new Acquirer(client, defaults)
    this.#client = client
    this.#acquirer = acquirer
    keepInternals(this, { client, terms: (options) => acquirer.terms(options) })
  }

  get runner(): Runner {
    return this.#client.runner
  }

  get namespace(): string {
    return this.#client.namespace
  }

  acquire(scope: ScopeLike, options?: AcquireOptions): Promise<Lease> {
    return this.#acquirer.acquire(scope, exclusively, options)
  }

  tryAcquire(scope: ScopeLike, options?: AcquireOptions): Promise<Lease | null> {
    return this.#acquirer.tryAcquire(scope, exclusively, options)
  }

  run<Result>(scope: ScopeLike, body: Body<Result>): Promise<Result>
  run<Result>(scope: ScopeLike, options: AcquireOptions, body: Body<Result>): Promise<Result>
  run<Result>(scope: ScopeLike, ...rest: RunArguments<Result>): Promise<Result> {
    return this.#acquirer.run(scope, exclusively, ...rest)
  }

  acquireAll(scopes: readonly ScopeLike[], options?: AcquireOptions): Promise<LeaseSet> {
    return acquireAll(this.#acquirer, scopes, options)
  }

  lock(scope: ScopeLike, options: AcquireOptions = {}): Lock {
    return this.#acquirer.lock(toScope(scope), exclusively, options)
  }

  readWrite(scope: ScopeLike, options: AcquireOptions = {}): ReadWriteLock {
    return readWriteLock(this.#acquirer, toScope(scope), options)
  }

  semaphore(scope: ScopeLike, permits: number, options: AcquireOptions = {}): Semaphore {
    return semaphoreOf(this.#acquirer, toScope(scope), permits, options)
  }

  elect(name: string, options: ElectionOptions = {}): Election {
    return new LeaderElection(this.#acquirer, name, options)
  }

  once<Result>(name: string, options: OnceOptions, body: Body<Result>): Promise<OnceResult<Result>> {
    return runOnce(this.#acquirer, name, options, body)
  }

  claim(queue: string, taskId: string, options?: TaskOptions): Promise<TaskClaim> {
    return claimTask(this.#acquirer, queue, taskId, options)
  }

  work<Item>(queue: string, options: WorkOptions<Item>, handler: JobHandler<Item>): WorkLoop {
    return new TaskLoop(this.#acquirer, queue, options, handler)
  }

  async resume(proof: LeaseProof, options?: AcquireOptions): Promise<Lease> {
    checkProof(proof)
    const ttl = options?.ttl ?? proof.ttlMs
    return resume(this.#client, proof, this.#acquirer.terms({ ...options, ttl }))
  }

  async list(options?: ListOptions): Promise<LockPage> {
    this.#client.refuseIfClosed()
    return listLocks(this.#client, options)
  }

  async inspect(scope: ScopeLike): Promise<LockInfo | null> {
    this.#client.refuseIfClosed()
    return inspectLock(this.#client, toScope(scope))
  }

  async explain(scope: ScopeLike): Promise<string> {
    const wanted = toScope(scope)
    return explainLock(describeScope(wanted), await this.inspect(wanted))
  }

  async status(scope: ScopeLike): Promise<LockStatus> {
    return lockStatusOf(await this.inspect(scope))
  }

  async evict(scope: ScopeLike, options: EvictOptions): Promise<number> {
    this.#client.refuseIfClosed()
    return evictHolders(this.#client, toScope(scope), options)
  }

  async sweep(): Promise<number> {
    this.#client.refuseIfClosed()
    return sweepLocks(this.#client)
  }

  async stats(): Promise<Statistics> {
    this.#client.refuseIfClosed()
    return gatherStatistics(this.#client)
  }

  async verify(proof: LeaseProof, scope: ScopeLike): Promise<Verified> {
    this.#client.refuseIfClosed()
    return verifyProof(this.#client, proof, toScope(scope))
  }

  on<Name extends EventName>(name: Name, listener: LockEventListener<Name>): Disposable {
    return this.#client.events.on(name, listener)
  }

  close(): Promise<void> {
    return this.#client.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}
