import { submitOnce } from '../core/batcher.ts'
import { LeaseholdError } from '../core/errors.ts'
import type { EventName, Listener } from '../core/events.ts'
import { covers, describeScope, storeKey, toScope, type Scope, type ScopeLike } from '../core/scope.ts'
import type { Runner } from '../core/driver.ts'
import { takeAll, type LeaseSet } from './acquire-all.ts'
import { attempt, exclusively, pursue, refusal, type Sharing } from './acquisition.ts'
import type { Client } from './client.ts'
import {
  eachLock,
  explainLock,
  inspectLock,
  listLocks,
  type ListOptions,
  type LockInfo,
  type LockPage,
  type LockStatus,
} from './inspection.ts'
import type { Lease, LeaseProof } from './lease.ts'
import { resolveOptions, type AcquireOptions, type Terms } from './options.ts'
import { asParty, currentParty, isWithin } from './party.ts'
import { gatherStatistics, type Statistics } from './statistics.ts'
import { verifyProof, type Verified } from './verify.ts'

/** What runs while a lock is held. */
export type Body<Result> = (lease: Lease) => Result | Promise<Result>

/** A lock to be taken again and again with the same options. */
export interface Lock {
  readonly scope: Scope
  acquire(options?: AcquireOptions): Promise<Lease>
  tryAcquire(options?: AcquireOptions): Promise<Lease | null>
  run<Result>(body: Body<Result>): Promise<Result>
  run<Result>(options: AcquireOptions, body: Body<Result>): Promise<Result>
}

/** All locks of one namespace of one store. Made by `connect` or `createLocks`. */
export class Locks implements AsyncDisposable {
  readonly #client: Client
  readonly #defaults: AcquireOptions
  readonly #defaultTerms: Terms

  /** @internal */
  constructor(client: Client, defaults: AcquireOptions) {
    this.#client = client
    this.#defaults = defaults
    this.#defaultTerms = resolveOptions(defaults, client.driver.supports, client.allowForce)
  }

  /** Who this client is to others. */
  get runner(): Runner {
    return this.#client.runner
  }

  get namespace(): string {
    return this.#client.namespace
  }

  /** Waits for the lock. Rejects on timeout or abort, leaving no claim behind. */
  acquire(scope: ScopeLike, options?: AcquireOptions): Promise<Lease> {
    return this.#acquire(toScope(scope), exclusively, options)
  }

  /** The lock if it is free, else null. Waits only if `wait` says so. */
  tryAcquire(scope: ScopeLike, options?: AcquireOptions): Promise<Lease | null> {
    return this.#tryAcquire(toScope(scope), exclusively, options)
  }

  /**
   * Runs `body` while the lock is held, and lets go whatever happens. Rejects with the body's error if there is one, else
   * with LOST if the lock was lost before the body had finished.
   */
  run<Result>(scope: ScopeLike, body: Body<Result>): Promise<Result>
  run<Result>(scope: ScopeLike, options: AcquireOptions, body: Body<Result>): Promise<Result>
  run<Result>(scope: ScopeLike, ...rest: [Body<Result>] | [AcquireOptions, Body<Result>]): Promise<Result> {
    const [options, body] = rest.length === 1 ? [undefined, rest[0]] : rest
    return this.#run(toScope(scope), exclusively, options, body)
  }

  /** All of these locks or none, within one `wait`. Cannot deadlock with another `acquireAll`. */
  async acquireAll(scopes: readonly ScopeLike[], options?: AcquireOptions): Promise<LeaseSet> {
    const terms = this.#terms(options)
    const waitMs = terms.failOnConflict ? 0 : (terms.waitMs ?? Infinity)
    const taken = await takeAll(this.#client, scopes, terms, waitMs)
    if (taken instanceof LeaseholdError) throw taken
    return taken
  }

  /** The same lock, with the same options, again and again. */
  lock(scope: ScopeLike, options: AcquireOptions = {}): Lock {
    return this.#lock(toScope(scope), exclusively, options)
  }

  /** A page of what is held and waited for in this namespace. */
  list(options?: ListOptions): Promise<LockPage> {
    this.#client.refuseIfClosed()
    return listLocks(this.#client, options)
  }

  /** Who holds a lock and who waits for it; null if nobody does. */
  inspect(scope: ScopeLike): Promise<LockInfo | null> {
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
    const info = await this.inspect(scope)
    const holder = info?.holders.find((one) => !one.expired)
    const waiting = info?.waiters.length ?? 0
    if (holder === undefined) return { locked: false, waiting }
    return {
      locked: true,
      by: holder.runner.id,
      since: holder.acquiredAt ?? holder.enteredAt,
      fence: holder.fence,
      waiting,
      ...(holder.runner.metadata !== undefined && { metadata: holder.runner.metadata }),
    }
  }

  /**
   * Takes the lock from its holders at once, or from the one with `fence`. For operators: the holder is told, but it may
   * be writing still; only its fence protects. Needs `allowForce`. Gives how many were evicted.
   */
  async evict(scope: ScopeLike, options: { readonly reason: string; readonly fence?: number }): Promise<number> {
    this.#client.refuseIfClosed()
    if (!this.#client.allowForce) {
      throw new LeaseholdError('INVALID', 'evict takes locks from live holders. Pass allowForce: true to connect.')
    }
    if (typeof options?.reason !== 'string' || options.reason === '') {
      throw new LeaseholdError('INVALID', 'evict needs a reason: it is told to the holder.')
    }
    const wanted = toScope(scope)
    const key = storeKey(this.#client.namespace, wanted.key)
    const info = await inspectLock(this.#client, wanted)
    const fences = (info?.holders ?? []).map((holder) => holder.fence)
    const chosen = options.fence === undefined ? fences : fences.filter((fence) => fence === options.fence)
    const { batcher } = this.#client.office
    const standings = await Promise.all(
      chosen.map((fence) => submitOnce(batcher, { op: 'evict', key, fence, reason: options.reason })),
    )
    return standings.filter((standing) => standing.state === 'absent' && standing.reason === 'evicted').length
  }

  /** Clears away leases that are over and that nobody has asked about since. Gives how many locks that concerned. */
  async sweep(): Promise<number> {
    this.#client.refuseIfClosed()
    const { batcher, environment } = this.#client.office
    const stale: string[] = []
    for await (const lock of eachLock(this.#client, { limit: 1000 })) {
      if ([...lock.holders, ...lock.waiters].some((claim) => claim.expired)) stale.push(lock.key)
    }
    // Any request makes the store look at the key; releasing an id that nobody has changes nothing else.
    const looks = stale.map((key) => submitOnce(batcher, { op: 'release', key, id: environment.id() }))
    const standings = await Promise.all(looks)
    return standings.filter((standing) => standing.state !== 'unknown').length
  }

  /** Counters since `connect`, and how the namespace looks now. */
  stats(): Promise<Statistics> {
    this.#client.refuseIfClosed()
    return gatherStatistics(this.#client)
  }

  /** Asks the store whether a proof from another process stands for a lease on `scope`. */
  verify(proof: LeaseProof, scope: ScopeLike): Promise<Verified> {
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

  #lock(scope: Scope, sharing: Sharing, fixed: AcquireOptions): Lock {
    const merged = (options?: AcquireOptions): AcquireOptions => ({ ...fixed, ...options })
    return {
      scope,
      acquire: (options) => this.#acquire(scope, sharing, merged(options)),
      tryAcquire: (options) => this.#tryAcquire(scope, sharing, merged(options)),
      run: <Result>(...rest: [Body<Result>] | [AcquireOptions, Body<Result>]): Promise<Result> => {
        const [options, body] = rest.length === 1 ? [undefined, rest[0]] : rest
        return this.#run(scope, sharing, merged(options), body)
      },
    }
  }

  #acquire(scope: Scope, sharing: Sharing, options: AcquireOptions | undefined): Promise<Lease> {
    // One promise from here to the lease: this is the call that is made most. What throws in here rejects it.
    return new Promise((resolve, reject) => {
      const terms = this.#terms(options)
      const again = this.#enterAgain(scope, terms)
      if (again !== undefined) return resolve(again)
      const waitMs = terms.failOnConflict ? 0 : (terms.waitMs ?? Infinity)
      pursue(this.#client, scope, sharing, terms, waitMs, resolve, (missed) => {
        refusal(this.#client, scope, missed, terms).then(reject, reject)
      })
    })
  }

  async #tryAcquire(scope: Scope, sharing: Sharing, options: AcquireOptions | undefined): Promise<Lease | null> {
    const terms = this.#terms(options)
    const again = this.#enterAgain(scope, terms)
    if (again !== undefined) return again
    const waitMs = terms.failOnConflict ? 0 : (terms.waitMs ?? 0)
    const acquired = await attempt(this.#client, scope, sharing, terms, waitMs)
    if ('lease' in acquired) return acquired.lease
    const { miss } = acquired
    if (miss.type === 'refused' && miss.standing.reason === 'refused') return null
    if (miss.type === 'timeout' && miss.error === undefined) return null
    throw await refusal(this.#client, scope, acquired, terms)
  }

  async #run<Result>(
    scope: Scope,
    sharing: Sharing,
    options: AcquireOptions | undefined,
    body: Body<Result>,
  ): Promise<Result> {
    if (typeof body !== 'function') throw new LeaseholdError('INVALID', 'run needs a function to run.')
    const { environment } = this.#client
    return asParty(options?.party ?? environment.id(), async () => {
      const lease = await this.#acquire(scope, sharing, options)
      try {
        const result = await body(lease)
        // Look at the clock before letting go: a body that finished too late has done unprotected work.
        if (!lease.held && lease.loss !== undefined) throw lease.loss
        return result
      } finally {
        await lease.release()
      }
    })
  }

  /** The lease this party has on the scope already, if it said it may enter twice. */
  #enterAgain(scope: Scope, terms: Terms): Lease | undefined {
    if (!terms.reentrant || terms.party === undefined) return undefined
    for (const lease of this.#client.leases) {
      if (lease.held && covers(lease.scope, scope) && isWithin(terms.party, lease.runner.party)) return lease.enter()
    }
    return undefined
  }

  #terms(options: AcquireOptions | undefined): Terms {
    this.#client.refuseIfClosed()
    const { driver, allowForce } = this.#client
    const terms =
      options === undefined
        ? this.#defaultTerms
        : resolveOptions({ ...this.#defaults, ...options }, driver.supports, allowForce)
    if (terms.party !== undefined) return terms
    const party = currentParty()
    return party === undefined ? terms : { ...terms, party }
  }
}
