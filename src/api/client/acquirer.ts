import { LeaseholdError } from '../../core/errors.ts'
import { isContention } from './waiter.ts'
import { toScope, type Scope, type ScopeLike } from '../../core/contract/scope.ts'
import { attempt, pursue, type Sharing } from './acquisition.ts'
import type { Client } from './client.ts'
import type { LeaseHandle } from '../lease/lease-handle.ts'
import { checkAcquireOptions, resolveOptions, type AcquireOptions, type Terms, acquireOptions } from '../options.ts'
import { enterAgain, ownDeadlock, ownerTerms } from '../owners/own-locks.ts'
import { asOwner, bodyOwner, claimingOwner } from '../owners/current-owner.ts'
import { refusal } from './refusal.ts'
import type { Lease } from '../lease.ts'

/** The ways of taking a lock, however it is shared, by one client and its defaults. */
export class Acquirer {
  readonly client: Client
  readonly #defaults: AcquireOptions
  readonly #defaultTerms: Terms
  #lastOptions: AcquireOptions | undefined
  #lastTerms: Terms | undefined

  constructor(client: Client, defaults: AcquireOptions) {
    this.client = client
    this.#defaults = defaults
    this.#defaultTerms = resolveOptions(defaults, client.driver.supports, client.allowForce)
  }

  /** The options of one acquisition, checked, for whoever is asking. */
  terms(options?: AcquireOptions, owner = claimingOwner(options?.owner ?? this.#defaults.owner)): Terms {
    const { client } = this
    client.refuseIfClosed()
    const terms = options === undefined ? this.#defaultTerms : this.#termsOf(options)
    return owner === undefined ? terms : ownerTerms(client, terms, owner)
  }

  /** A program asks with the same few options again and again: those it asked with last are checked once. */
  #termsOf(options: AcquireOptions): Terms {
    const last = this.#lastOptions
    if (last !== undefined && this.#lastTerms !== undefined && areSame(last, options)) return this.#lastTerms
    const { driver, allowForce } = this.client
    const terms = resolveOptions(acquireOptions(this.#defaults, options), driver.supports, allowForce)
    this.#lastOptions = { ...options }
    this.#lastTerms = terms
    return terms
  }

  acquire(of: ScopeLike, sharing: Sharing, options: AcquireOptions | undefined, owner?: string): Promise<LeaseHandle> {
    // One promise from here to the lease: this is the call that is made most. What throws in here rejects it.
    return new Promise((resolve, reject) => {
      const { client } = this
      const scope = toScope(of)
      const terms = this.terms(options, owner)
      const again = enterAgain(client, scope, sharing, terms)
      if (again !== undefined) return resolve(again)
      const waitMs = terms.failOnConflict ? 0 : (terms.waitMs ?? Infinity)
      if (waitMs > 0) this.refuseOwnDeadlock(scope, sharing, terms)
      pursue(client, scope, sharing, terms, waitMs, resolve, (missed) => {
        refusal(client, scope, missed, terms).then(reject, reject)
      })
    })
  }

  async tryAcquire(of: ScopeLike, sharing: Sharing, options: AcquireOptions | undefined): Promise<LeaseHandle | null> {
    const { client } = this
    const scope = toScope(of)
    const terms = this.terms(options)
    const again = enterAgain(client, scope, sharing, terms)
    if (again !== undefined) return again
    const waitMs = terms.failOnConflict ? 0 : (terms.waitMs ?? 0)
    if (waitMs > 0) this.refuseOwnDeadlock(scope, sharing, terms)
    const acquired = await attempt(client, scope, sharing, terms, waitMs)
    if ('lease' in acquired) return acquired.lease
    const { miss } = acquired
    if (isContention(miss)) return null
    if (miss.type === 'timeout' && miss.error === undefined) return null
    throw await refusal(client, scope, acquired, terms)
  }

  async run<Result>(of: ScopeLike, sharing: Sharing, ...rest: RunArguments<Result>): Promise<Result> {
    const scope = toScope(of)
    const [options, body] = rest.length === 1 ? [undefined, rest[0]] : rest
    if (typeof body !== 'function') throw new LeaseholdError('INVALID', 'run needs a function to run.')
    const owner = this.newOwner(options)
    const lease = await this.acquire(scope, sharing, options, owner)
    // Closed in the same turn, by another body say, it has let this lock go.
    this.client.refuseIfClosed()
    try {
      const result = await asOwner(owner, () => body(lease))
      // Look at the clock before letting go: a body that finished too late has done unprotected work.
      const { held, loss } = lease.latest
      if (!held && loss !== undefined) throw loss
      return result
    } finally {
      await lease.latest.release()
    }
  }

  /** The same lock, with the same options, again and again. */
  lock(scope: Scope, sharing: Sharing, fixed: AcquireOptions = {}): Lock {
    checkAcquireOptions(fixed, 'a lock')
    const merged = (options?: AcquireOptions): AcquireOptions => acquireOptions(fixed, options)
    return {
      scope,
      acquire: (options) => this.acquire(scope, sharing, merged(options)),
      tryAcquire: (options) => this.tryAcquire(scope, sharing, merged(options)),
      run: <Result>(...rest: RunArguments<Result>): Promise<Result> => {
        const [options, body] = rest.length === 1 ? [undefined, rest[0]] : rest
        return this.run(scope, sharing, merged(options), body)
      },
    }
  }

  /** The owner of a new body. */
  newOwner(options: AcquireOptions | undefined): string {
    return bodyOwner(options?.owner ?? this.#defaults.owner, () => this.client.environment.id())
  }

  /** Throws DEADLOCK if an owner is about to wait for what it holds itself. */
  refuseOwnDeadlock(scope: Scope, sharing: Sharing, terms: Terms): void {
    const error = ownDeadlock(this.client, scope, sharing, terms)
    if (error === undefined) return
    const { key = '', code } = error
    this.client.emitForLock('failed', scope, { key, code, waitMs: 0, attempts: 0 })
    throw error
  }
}

/** Whether two objects have the same values under the same names, and none that could have changed inside. */
function areSame(one: AcquireOptions, other: AcquireOptions): boolean {
  let names = 0
  for (const name in other) {
    const value = other[name as keyof AcquireOptions]
    if (typeof value === 'object' || value !== one[name as keyof AcquireOptions]) return false
    if (!Object.hasOwn(one, name)) return false
    names += 1
  }
  return names === Object.keys(one).length
}

/** What runs while a lock is held. */
export type Body<Result> = (lease: Lease) => Result | Promise<Result>

/** The arguments of `run` after the scope: the options may be left out. For test doubles, which write `run` only once. */
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
