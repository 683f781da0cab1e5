import { LeaseholdError } from '../../core/errors.ts'
import { toScope, type Scope, type ScopeLike } from '../../core/contract/scope.ts'
import { Acquisition, isContention, type AcquireRequest, type Miss, type Sharing } from './acquisition.ts'
import type { Client } from './client.ts'
import { LeaseHandle } from '../lease/lease-handle.ts'
import {
  checkAcquireOptions,
  resolveOptions,
  type AcquireOptions,
  type AcquireTerms,
  acquireOptions,
} from '../options.ts'
import { enterAgain, ownDeadlock, termsForOwner } from '../owners/own-locks.ts'
import { asOwner, bodyOwner, claimingOwner } from '../owners/current-owner.ts'
import { acquireError } from './acquire-error.ts'
import type { Lock, RunArguments } from '../lock.ts'

/** An acquisition that ended without a grant, and how. */
export interface MissedAcquisition {
  readonly miss: Miss
  readonly acquisition: Acquisition
}

/** Takes locks for one client with its defaults: checks options, makes acquisitions, and turns grants into leases. */
export class Acquirer {
  readonly client: Client
  readonly #defaults: AcquireOptions
  readonly #defaultTerms: AcquireTerms
  #lastOptions: AcquireOptions | undefined
  #lastTerms: AcquireTerms | undefined

  constructor(client: Client, defaults: AcquireOptions) {
    this.client = client
    this.#defaults = defaults
    this.#defaultTerms = resolveOptions(defaults, client.driver.supports, client.allowForce)
  }

  /** The options of one acquisition, checked, and the owner on whose behalf it is made. */
  terms(options?: AcquireOptions, owner = claimingOwner(options?.owner ?? this.#defaults.owner)): AcquireTerms {
    const { client } = this
    client.refuseIfClosed()
    const terms = options === undefined ? this.#defaultTerms : this.#termsOf(options)
    return owner === undefined ? terms : termsForOwner(client, terms, owner)
  }

  /** Checks options again only if they differ from those of the call before: most programs repeat theirs. */
  #termsOf(options: AcquireOptions): AcquireTerms {
    const last = this.#lastOptions
    if (last !== undefined && this.#lastTerms !== undefined && areSame(last, options)) return this.#lastTerms
    const { driver, allowForce } = this.client
    const terms = resolveOptions(acquireOptions(this.#defaults, options), driver.supports, allowForce)
    this.#lastOptions = { ...options }
    this.#lastTerms = terms
    return terms
  }

  /** Waits for a lock. */
  acquire(of: ScopeLike, sharing: Sharing, options?: AcquireOptions, owner?: string): Promise<LeaseHandle> {
    // One promise from here to the lease: this is the call that is made most. An error thrown in here rejects the promise.
    return new Promise((resolve, reject) => {
      const { client } = this
      const scope = toScope(of)
      const terms = this.terms(options, owner)
      const again = enterAgain(client, scope, sharing, terms)
      if (again !== undefined) return resolve(again)
      const waitMs = terms.failOnConflict ? 0 : (terms.waitMs ?? Infinity)
      if (waitMs > 0) this.refuseOwnDeadlock(scope, sharing, terms)
      new Acquisition(client, { scope, sharing, terms, waitMs }, (outcome, acquisition) => {
        if (outcome.type === 'granted') resolve(LeaseHandle.granted(acquisition, outcome))
        else acquireError(acquisition, outcome).then(reject, reject)
      }).start()
    })
  }

  /** One acquisition as a promise. Rejects only if no claim was sent. */
  attempt(request: AcquireRequest): Promise<LeaseHandle | MissedAcquisition> {
    return new Promise((resolve) => {
      new Acquisition(this.client, request, (outcome, acquisition) => {
        if (outcome.type === 'granted') resolve(LeaseHandle.granted(acquisition, outcome))
        else resolve({ miss: outcome, acquisition })
      }).start()
    })
  }

  /** The lock, or null if another holder has it. Waits only if `wait` says so. */
  async tryAcquire(of: ScopeLike, sharing: Sharing, options?: AcquireOptions): Promise<LeaseHandle | null> {
    const { client } = this
    const scope = toScope(of)
    const terms = this.terms(options)
    const again = enterAgain(client, scope, sharing, terms)
    if (again !== undefined) return again
    const waitMs = terms.failOnConflict ? 0 : (terms.waitMs ?? 0)
    if (waitMs > 0) this.refuseOwnDeadlock(scope, sharing, terms)
    const acquired = await this.attempt({ scope, sharing, terms, waitMs })
    if (acquired instanceof LeaseHandle) return acquired
    const { miss, acquisition } = acquired
    if (isContention(miss)) return null
    if (miss.type === 'timeout' && miss.error === undefined) return null
    throw await acquireError(acquisition, miss)
  }

  /** Runs a body while the lock is held. */
  async run<Result>(of: ScopeLike, sharing: Sharing, ...rest: RunArguments<Result>): Promise<Result> {
    const scope = toScope(of)
    const [options, body] = rest.length === 1 ? [undefined, rest[0]] : rest
    if (typeof body !== 'function') throw new LeaseholdError('INVALID', 'run needs a function to run.')
    const owner = this.newOwner(options)
    const lease = await this.acquire(scope, sharing, options, owner)
    // A client that was closed in the same turn, by another body say, has released this lease.
    this.client.refuseIfClosed()
    try {
      const result = await asOwner(owner, () => body(lease))
      // Read the clock before the release: a body that finished too late has done unprotected work.
      const { held, loss } = lease.latest
      if (!held && loss !== undefined) throw loss
      return result
    } finally {
      await lease.latest.release()
    }
  }

  /** A lock of one scope, with options of its own. */
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

  /** The owner of a new `run` body. */
  newOwner(options: AcquireOptions | undefined): string {
    return bodyOwner(options?.owner ?? this.#defaults.owner, () => this.client.environment.id())
  }

  /** Throws DEADLOCK if the owner is about to wait for a lock that it holds itself. */
  refuseOwnDeadlock(scope: Scope, sharing: Sharing, terms: AcquireTerms): void {
    const error = ownDeadlock(this.client, scope, sharing, terms)
    if (error === undefined) return
    const { key = '', code } = error
    this.client.emitForLock('failed', scope, { key, code, waitMs: 0, attempts: 0 })
    throw error
  }
}

/** Whether two calls have the same options. Objects never count as the same: their fields may have changed. */
function areSame(before: AcquireOptions, options: AcquireOptions): boolean {
  let names = 0
  for (const name in options) {
    const value = options[name as keyof AcquireOptions]
    if (typeof value === 'object' || value !== before[name as keyof AcquireOptions]) return false
    if (!Object.hasOwn(before, name)) return false
    names += 1
  }
  return names === Object.keys(before).length
}
