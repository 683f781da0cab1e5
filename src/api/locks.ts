import type { Runner } from '../core/contract/driver.ts'
import type { EventName, LockEventListener } from './client/events.ts'
import type { ScopeLike } from '../core/contract/scope.ts'
import type { Lease, LeaseSet } from './lease.ts'
import type { Body, Lock } from './lock.ts'
import type { ListOptions, LockInfo, LockPage, LockStatus } from './operators/inspection.ts'
import type { EvictOptions } from './operators/operators.ts'
import type { Statistics } from './operators/statistics.ts'
import type { AcquireOptions } from './options.ts'
import type { Election, ElectionOptions } from './primitives/election.ts'
import type { OnceOptions, OnceResult } from './primitives/once.ts'
import type { ReadWriteLock, Semaphore } from './primitives/shared.ts'
import type { TaskClaim, TaskOptions } from './primitives/task.ts'
import type { JobHandler, WorkLoop, WorkOptions } from './primitives/work.ts'
import type { LeaseProof, Verified } from './lease/proof.ts'

/**
 * All locks of one namespace of one store. Made by `connect` or `createLocks`. Code that needs only some methods can take a
 * `Pick` of it; a test then passes an object literal.
 *
 * @example
 * ```ts
 * import type { Lease, Locks } from 'leasehold'
 *
 * async function ship(locks: Pick<Locks, 'tryAcquire'>, order: string): Promise<boolean> {
 *   await using lease = await locks.tryAcquire(`orders/${order}`)
 *   return lease !== null
 * }
 *
 * // In a test: somebody else has every lock.
 * const contended: Pick<Locks, 'tryAcquire'> = { tryAcquire: async () => null }
 * console.assert((await ship(contended, '42')) === false)
 * ```
 */
export interface Locks extends AsyncDisposable {
  /** This client, as others see it. */
  readonly runner: Runner
  /** Keeps these locks apart from others in the same store. */
  readonly namespace: string
  /**
   * Waits for the lock. Rejects with TIMEOUT or ABORTED, leaving no claim behind.
   *
   * @example
   * ```ts
   * await using lease = await locks.acquire('orders/42', { ttl: '30s', wait: '5s' })
   * await fetch('https://api.example.com/orders/42', { headers: { fence: String(lease.fence) }, signal: lease.signal })
   * ```
   */
  acquire(scope: ScopeLike, options?: AcquireOptions): Promise<Lease>
  /**
   * The lock if it is free, else null. Waits only if `wait` says so.
   *
   * @example
   * ```ts
   * await using lease = await locks.tryAcquire('nightly-report')
   * if (lease === null) console.log('Another machine is at it.')
   * else console.log(`Writing under fence ${lease.fence}.`)
   * ```
   */
  tryAcquire(scope: ScopeLike, options?: AcquireOptions): Promise<Lease | null>
  /**
   * Runs `body` while the lock is held, and releases it in any case. Rejects with the body's error if there is one, else
   * with LOST if the lock was lost before the body had finished.
   *
   * @example
   * ```ts
   * const total = await locks.run('orders/42', { wait: '10s' }, async (lease) => {
   *   lease.signal.throwIfAborted()
   *   return 42
   * })
   * console.log(total)
   * ```
   */
  run<Result>(scope: ScopeLike, body: Body<Result>): Promise<Result>
  run<Result>(scope: ScopeLike, options: AcquireOptions, body: Body<Result>): Promise<Result>
  /**
   * All of these locks or none, within one `wait`. Cannot deadlock with another `acquireAll`. A scope that another scope
   * covers gets no lease of its own; ranges that overlap otherwise are INVALID.
   *
   * @example
   * ```ts
   * await using both = await locks.acquireAll(['accounts/1', 'accounts/2'], { wait: '5s' })
   * console.log(both.leases.map(({ fence }) => fence))
   * ```
   */
  acquireAll(scopes: readonly ScopeLike[], options?: AcquireOptions): Promise<LeaseSet>
  /**
   * A lock with fixed options, to be used again and again.
   *
   * @example
   * ```ts
   * const printer = locks.lock('printer', { ttl: '10s', wait: '1m' })
   * await printer.run(async () => console.log('printing'))
   * ```
   */
  lock(scope: ScopeLike, options?: AcquireOptions): Lock
  /**
   * A lock for many readers or one writer.
   *
   * @example
   * ```ts
   * const catalogue = locks.readWrite('catalogue')
   * await using reading = await catalogue.read()
   * await using writing = await reading.upgrade({ wait: '5s' })
   * console.log(writing.fence > reading.fence)
   * ```
   */
  readWrite(scope: ScopeLike, options?: AcquireOptions): ReadWriteLock
  /**
   * A lock that up to `permits` may hold at once. All clients must use the same number; another is refused with SCOPE_MISMATCH.
   *
   * @example
   * ```ts
   * const connections = locks.semaphore('smtp', 5)
   * await connections.run({ wait: '30s' }, async () => console.log('one of five'))
   * ```
   */
  semaphore(scope: ScopeLike, permits: number, options?: AcquireOptions): Semaphore
  /**
   * An election of this name, in which any number of clients stand and one of them leads.
   *
   * @example
   * ```ts
   * await using election = locks.elect('scheduler', { onDeposed: (_term, reason) => console.log(reason) })
   * const term = await election.campaign()
   * console.log(`Leading under fence ${term.fence}.`)
   * ```
   */
  elect(name: string, options?: ElectionOptions): Election
  /**
   * Runs a scheduled job on one of many machines: on the first that asks, unless the job ran within `atLeast`. The result says
   * whether it ran here.
   *
   * @example
   * ```ts
   * const outcome = await locks.once('nightly-report', { atMost: '15m', atLeast: '1m' }, async () => 'sent')
   * console.log(outcome.ran ? outcome.result : 'Another machine runs it.')
   * ```
   */
  once<Result>(name: string, options: OnceOptions, body: Body<Result>): Promise<OnceResult<Result>>
  /**
   * Claims a task of a queue: no two workers have it at once, and a worker that crashes loses it.
   *
   * @example
   * ```ts
   * const claim = await locks.claim('emails', 'welcome-42', { ttl: '1m' })
   * if (claim.state === 'claimed') {
   *   await using task = claim
   *   await task.heartbeat()
   *   await task.complete({ remember: '1h' })
   * } else console.log(claim.state, claim.by?.id)
   * ```
   */
  claim(queue: string, taskId: string, options?: TaskOptions): Promise<TaskClaim>
  /**
   * Claims tasks of a queue as long as it runs, and calls `handler` with each. A task is completed when its handler resolves, and given back
   * when it rejects or its worker dies. `source` finds tasks that are not done; a loop that finds none pauses longer and longer.
   *
   * @example
   * ```ts
   * const loop = locks.work('emails', { source: () => ['welcome-42'], concurrency: 4, ttl: '1m' }, async ({ item, fence, signal }) => {
   *   console.log(`sends ${item} with fence ${fence}`, signal.aborted)
   * })
   * await loop.stop() // waits for running handlers, at most `stopWithin`
   * ```
   */
  work<Item>(queue: string, options: WorkOptions<Item>, handler: JobHandler<Item>): WorkLoop
  /** Takes over a lease that another process handed off: pass the result of its `handOff()`. The fence stays the same. */
  resume(proof: LeaseProof, options?: AcquireOptions): Promise<Lease>
  /** A page of the locks in this namespace that are held or waited for. */
  list(options?: ListOptions): Promise<LockPage>
  /** Who holds a lock and who waits for it; null if nobody does. For a byte range: the claims that overlap it. */
  inspect(scope: ScopeLike): Promise<LockInfo | null>
  /** Who holds a lock and who waits for it, in sentences. */
  explain(scope: ScopeLike): Promise<string>
  /** Whether a lock is held, by whom and since when. */
  status(scope: ScopeLike): Promise<LockStatus>
  /**
   * Takes the lock from all its holders at once, or only from the holder with `fence`; for a byte range, from holders that
   * overlap it. For operators: the holder is notified, but may still be writing, and only its fence protects. Needs
   * `allowForce`. Resolves to how many were evicted.
   */
  evict(scope: ScopeLike, options: EvictOptions): Promise<number>
  /** Clears expired leases that the store has not cleared yet. Resolves to how many locks had such leases. */
  sweep(): Promise<number>
  /** Counters since `connect`, and the locks of the namespace now. */
  stats(): Promise<Statistics>
  /** Asks the store whether a proof from another process stands for a held lease on `scope`. */
  verify(proof: LeaseProof, scope: ScopeLike): Promise<Verified>
  /**
   * Calls `listener` on every such event until it is disposed of.
   *
   * @example
   * ```ts
   * using listening = locks.on('lost', ({ scope, reason }) => console.error(`${scope} was lost: ${reason}`))
   * ```
   */
  on<Name extends EventName>(name: Name, listener: LockEventListener<Name>): Disposable
  /** Releases all leases, ends all waits, and closes the connection to the store. */
  close(): Promise<void>
}
