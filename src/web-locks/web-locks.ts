import { Acquisition, isContention, type Miss, type OnOutcome } from '../api/client/acquisition.ts'
import type { Client } from '../api/client/client.ts'
import { eachLock, type ClaimInfo, type LockInfo as ListedLock } from '../api/operators/inspection.ts'
import type { Lease } from '../api/lease.ts'
import type { Locks } from '../api/locks.ts'
import { internalsOf, type LocksInternals } from '../api/client/locks-internals.ts'
import type { AcquireTerms } from '../api/options.ts'
import { acquireError } from '../api/client/acquire-error.ts'
import { LeaseHandle } from '../api/lease/lease-handle.ts'
import { exception } from './exceptions.ts'
import { LeaseholdError } from '../core/errors.ts'
import { readArguments, refuseContradictions, type LockRequest } from './arguments.ts'
import type {
  LockGrantedCallback,
  LockInfo,
  LockManagerSnapshot,
  LockOptions,
  WebLockManager,
  LockMode,
  WebLock,
} from './interface.ts'
import { webLockName, webLockScope } from './lock-name.ts'
import type { Batcher } from '../core/client/batcher.ts'

/**
 * `navigator.locks` of the W3C Web Locks specification, over any store: for processes and machines instead of the tabs of a
 * browser. Ttl and the like are the `defaults` of `locks`, which the caller closes.
 *
 * @example
 * ```ts
 * import { connect } from 'leasehold'
 * import { webLocks } from 'leasehold/web-locks'
 *
 * await using locks = await connect('memory:')
 * const manager = webLocks(locks)
 * await manager.request('reports', { mode: 'shared' }, async (lock) => console.log(lock?.name, lock?.fence))
 * ```
 */
export function webLocks(locks: Locks): WebLockManager {
  return new LeaseholdLockManager(locks)
}

class LeaseholdLockManager implements WebLockManager {
  readonly #inner: LocksInternals
  readonly #client: Client
  readonly #unsettled: UnsettledKeys

  constructor(locks: Locks) {
    this.#inner = internalsOf(locks, 'webLocks')
    this.#client = this.#inner.client
    this.#unsettled = new UnsettledKeys(this.#client.batcher)
  }

  request<Result>(name: string, callback: LockGrantedCallback<Result>): Promise<Awaited<Result>>
  request<Result>(name: string, options: LockOptions, callback: LockGrantedCallback<Result>): Promise<Awaited<Result>>
  // Wrong arguments reject, they do not throw. Nothing is awaited before the claim, so requests keep their order.
  async request(...given: unknown[]): Promise<never> {
    const request = readArguments(given)
    this.#refuseIfClosed()
    refuseContradictions(request)
    return (await this.#perform(request)) as never
  }

  async query(): Promise<LockManagerSnapshot> {
    this.#refuseIfClosed()
    // The snapshot must show every request of this client that was made before.
    await this.#unsettled.settled()
    const snapshot: LockManagerSnapshot = { held: [], pending: [] }
    for await (const lock of eachLock(this.#client, { prefix: '', limit: 1000 })) {
      snapshot.held.push(...describe(lock, lock.holders))
      snapshot.pending.push(...describe(lock, lock.waiters))
    }
    return snapshot
  }

  get [Symbol.toStringTag](): string {
    return 'LockManager'
  }

  async #perform(request: LockRequest): Promise<unknown> {
    const { callback, signal } = request
    // Requests that are answered together go on in the order in which they were made: the batcher keeps it.
    const lease = await this.#claim(request)
    if (lease === null) return callback(null)
    if (this.#client.closed) throw exception('AbortError', 'The client was closed before the callback could begin.')
    // The signal fired between the grant and now: that counts as fired before the grant.
    if (signal?.aborted === true) {
      await lease.release()
      throw signal.reason
    }
    return hold(lease, request)
  }

  /** The lease; null if `ifAvailable` was set and the lock is held. */
  #claim(request: LockRequest): Promise<Lease | null> {
    const { mode, ifAvailable } = request
    const { scope, metadata } = webLockScope(request.name)
    const terms = this.#terms(request, metadata)
    return new Promise((resolve, reject) => {
      const onOutcome: OnOutcome = (outcome, acquisition) => {
        const { key } = acquisition
        if (outcome.type === 'aborted') {
          void this.#unsettled.deleteOnceReleased(key)
          // Reject at once, with the signal's own reason.
          return reject(terms.waitPolicy.signal?.reason as Error)
        }
        this.#unsettled.delete(key)
        if (outcome.type === 'granted') resolve(LeaseHandle.granted(acquisition, outcome))
        else if (ifAvailable && isTaken(outcome)) resolve(null)
        else this.#failure(acquisition, outcome).then(reject, reject)
      }
      const wanted = { scope, sharing: { mode }, terms, waitMs: ifAvailable ? 0 : Infinity }
      const acquisition = withWebErrors(() => new Acquisition(this.#client, wanted, onOutcome))
      acquisition.start()
      this.#unsettled.add(acquisition.key)
    })
  }

  #terms({ steal, signal }: LockRequest, metadata: Readonly<Record<string, string>> | undefined): AcquireTerms {
    const terms = withWebErrors(() =>
      this.#inner.terms({
        onConflict: steal ? 'force' : 'wait',
        ...(signal !== undefined && { signal }),
        ...(metadata !== undefined && { metadata }),
      }),
    )
    // A request waits until it is granted or aborted, whatever the defaults say.
    return { ...terms, endsWhenEvicted: true, waitPolicy: { ...terms.waitPolicy, queueMs: undefined } }
  }

  async #failure(acquisition: Acquisition, miss: Miss): Promise<Error> {
    const error = await acquireError(acquisition, miss)
    if (miss.type === 'refused' && miss.status.reason === 'evicted') {
      return exception('AbortError', 'The lock was stolen before its callback could begin.', error)
    }
    return error.code === 'CLOSED' ? exception('AbortError', 'The client was closed while waiting.', error) : error
  }

  /** A closed client is like a document that is no longer fully active. */
  #refuseIfClosed(): void {
    if (this.#client.closed) throw exception('InvalidStateError', 'This client has been closed. Connect again.')
  }
}

// Web IDL: `length` is the fewest arguments. The method has a rest parameter, which would make it 0.
const { request } = Object.getOwnPropertyDescriptors(LeaseholdLockManager.prototype)
Object.defineProperty(request.value, 'length', { value: 2 })

function isTaken(miss: Miss): boolean {
  return isContention(miss) && miss.type === 'refused' && miss.status.reason !== 'evicted'
}

function describe(lock: ListedLock, claims: readonly ClaimInfo[]): LockInfo[] {
  return claims
    .filter((claim) => !claim.expired)
    .map(({ mode, runner }) => ({ name: webLockName(lock.scope, runner.metadata), mode, clientId: runner.client }))
}

/** Turns UNSUPPORTED and INVALID into the NotSupportedError of Web Locks. */
function withWebErrors<Result>(step: () => Result): Result {
  try {
    return step()
  } catch (error) {
    if (error instanceof LeaseholdError && (error.code === 'UNSUPPORTED' || error.code === 'INVALID')) {
      throw exception('NotSupportedError', error.message, error)
    }
    throw error
  }
}

class GrantedLock implements WebLock {
  readonly name: string
  readonly mode: LockMode
  readonly #lease: Lease

  constructor(name: string, mode: LockMode, lease: Lease) {
    this.name = name
    this.mode = mode
    this.#lease = lease
  }

  get fence(): number {
    return this.#lease.fence
  }

  get signal(): AbortSignal {
    return this.#lease.signal
  }

  get [Symbol.toStringTag](): string {
    return 'Lock'
  }
}

/**
 * Runs the callback, and releases the lock when the callback's promise has settled. Rejects with AbortError as soon as the
 * lock is stolen or lost; the callback then goes on without it.
 */
async function hold(lease: Lease, { name, mode, callback }: LockRequest): Promise<unknown> {
  try {
    const lost = whenLost(lease)
    // A callback that throws rejects like one that returns a rejected promise.
    const result = (async () => callback(new GrantedLock(name, mode, lease)))()
    return await Promise.race([result, lost])
  } finally {
    await lease.release()
  }
}

function whenLost(lease: Lease): Promise<never> {
  const { signal } = lease
  return new Promise((_, reject) => {
    const notify = (): void => {
      const how = lease.loss?.reason?.startsWith('evicted') === true ? 'stolen' : 'lost'
      reject(exception('AbortError', `The lock was ${how} while it was held.`, lease.loss))
    }
    if (signal.aborted) notify()
    else signal.addEventListener('abort', notify, { once: true })
  })
}

/** The keys of requests that the store may not have answered yet: `query` waits for their answers. */
class UnsettledKeys {
  readonly #batcher: Batcher
  readonly #requests = new Map<string, number>()

  constructor(batcher: Batcher) {
    this.#batcher = batcher
  }

  /** A request is about to be sent. */
  add(key: string): void {
    this.#requests.set(key, (this.#requests.get(key) ?? 0) + 1)
  }

  /** The request is granted or refused. */
  delete(key: string): void {
    const left = (this.#requests.get(key) ?? 1) - 1
    if (left === 0) this.#requests.delete(key)
    else this.#requests.set(key, left)
  }

  /** The request was given up, and its release is about to be sent. */
  async deleteOnceReleased(key: string): Promise<void> {
    // The caller submits the release when this has returned.
    await Promise.resolve()
    await this.#batcher.keyAnswered(key)
    this.delete(key)
  }

  /** Resolves when the store has answered every request that was sent before. */
  async settled(): Promise<void> {
    await Promise.all([...this.#requests.keys()].map((key) => this.#batcher.keyAnswered(key)))
  }
}
