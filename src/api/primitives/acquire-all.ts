import { overlaps } from '../../core/rule/conflict.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { covers, describeScope, toScope, type Scope, type ScopeLike } from '../../core/contract/scope.ts'
import { exclusively, isContention, refuseUnsupported, type Miss } from '../client/acquisition.ts'
import { LeaseHandle } from '../lease/lease-handle.ts'
import type { LeaseSet } from '../lease.ts'
import type { ReleaseResult } from '../lease/release-result.ts'
import type { AcquireOptions, AcquireTerms } from '../options.ts'
import { acquireError } from '../client/acquire-error.ts'
import type { Acquirer, MissedAcquisition } from '../client/acquirer.ts'

/** The leases of one `acquireAll`. */
class HeldLeases implements LeaseSet {
  readonly leases: readonly LeaseHandle[]
  #signal: AbortSignal | undefined

  constructor(leases: readonly LeaseHandle[]) {
    this.leases = leases
  }

  get signal(): AbortSignal {
    this.#signal ??= AbortSignal.any(this.leases.map((lease) => lease.signal))
    return this.#signal
  }

  get held(): boolean {
    return this.leases.every((lease) => lease.held)
  }

  release(): Promise<readonly ReleaseResult[]> {
    return Promise.all(this.leases.map((lease) => lease.release()))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release()
  }
}

/** All of these locks or none, within one `wait`. */
export async function acquireAll(
  acquirer: Acquirer,
  scopes: readonly ScopeLike[],
  options: AcquireOptions | undefined,
): Promise<LeaseSet> {
  // An owner of its own: while it waits for one lock, it holds those before it in the order.
  const terms = acquirer.terms(options, acquirer.newOwner(options))
  const waitMs = terms.failOnConflict ? 0 : (terms.waitMs ?? Infinity)
  const wanted = scopes.map(toScope)
  if (waitMs > 0) for (const scope of wanted) acquirer.refuseOwnDeadlock(scope, exclusively, terms)
  const taken = await takeAll(acquirer, wanted, terms, waitMs)
  if (taken instanceof LeaseholdError) throw taken
  return taken
}

/**
 * Takes all scopes or none. Every call takes them in the same order and never waits for a lock while it holds a later one, so
 * two calls cannot wait for each other. Costs one round trip if no lock is held. Gives the error of the scope that failed.
 */
async function takeAll(
  acquirer: Acquirer,
  scopes: readonly ScopeLike[],
  terms: AcquireTerms,
  waitMs: number,
): Promise<LeaseSet | LeaseholdError> {
  const { client } = acquirer
  const wanted = canonicalOrder(scopes.map(toScope))
  // Before the first claim: an error thrown after it would leave granted claims behind.
  for (const scope of wanted) refuseUnsupported(client, scope, exclusively)
  const since = client.environment.now()
  const until = since + waitMs
  const { retry, queueMs } = terms.waitPolicy
  let queuedMs = 0
  const held: LeaseHandle[] = []
  for (;;) {
    // If a lease was lost while we waited, release it and every later one, then re-acquire from there in canonical order.
    const lostAt = held.findIndex((lease) => !lease.held)
    if (lostAt >= 0) await Promise.all(held.splice(lostAt).map((lease) => lease.release()))
    if (held.length === wanted.length) return new HeldLeases(held)
    // Claim all that is left at once, without waiting: this round trip mostly suffices.
    const rest = wanted.slice(held.length)
    const tries = await Promise.all(
      rest.map((scope) => acquirer.attempt({ scope, sharing: exclusively, terms, waitMs: 0 })),
    )
    const firstMiss = tries.findIndex((acquired) => !(acquired instanceof LeaseHandle))
    const kept = firstMiss < 0 ? tries : tries.slice(0, firstMiss)
    held.push(...leasesIn(kept))
    if (firstMiss < 0) continue
    await Promise.all(leasesIn(tries.slice(firstMiss)).map((lease) => lease.release()))
    // Then wait for the first lock that was missed, holding only those before it.
    const scope = rest[firstMiss] as Scope
    const missed = tries[firstMiss] as MissedAcquisition
    const now = client.environment.now()
    const leftMs = Math.max(0, until - now)
    const mayWait = leftMs > 0 && retry?.attempts !== 1 && worthWaiting(missed.miss)
    // `retry` bounds the time in all queues together.
    const waitPolicy = {
      ...terms.waitPolicy,
      queueMs: queueMs === undefined ? undefined : Math.max(1, queueMs - queuedMs),
    }
    const request = { scope, sharing: exclusively, terms: { ...terms, waitPolicy }, waitMs: leftMs }
    const acquired = mayWait ? await acquirer.attempt(request) : missed
    queuedMs += client.environment.now() - now
    if (!(acquired instanceof LeaseHandle)) {
      await Promise.all(held.map((lease) => lease.release()))
      const waitedMs = Math.round(client.environment.now() - since)
      const miss = waitMs > 0 ? outOfTime(acquired.miss) : acquired.miss
      return acquireError(acquired.acquisition, miss, waitedMs)
    }
    held.push(acquired)
  }
}

function worthWaiting(miss: Miss): boolean {
  return miss.type === 'failed' || isContention(miss)
}

/** A call that may wait and has no time left was not refused: it timed out. */
function outOfTime(miss: Miss): Miss {
  return isContention(miss) ? { type: 'timeout', ahead: undefined, error: undefined } : miss
}

function leasesIn(tries: readonly (LeaseHandle | MissedAcquisition)[]): LeaseHandle[] {
  return tries.filter((acquired) => acquired instanceof LeaseHandle)
}

/**
 * By key, then by the start of the range. Each scope once, without scopes that another one covers: its lease protects them.
 * Throws for scopes that overlap otherwise: the call would wait for itself.
 */
function canonicalOrder(scopes: readonly Scope[]): readonly Scope[] {
  const ordered = scopes.toSorted((left, right) => {
    if (left.key !== right.key) return left.key < right.key ? -1 : 1
    return startOf(left) - startOf(right) || endOf(right) - endOf(left)
  })
  const wanted: Scope[] = []
  for (const scope of ordered) {
    // In this order, a scope that overlaps any scope before it overlaps the last of them.
    const last = wanted.at(-1)
    if (last !== undefined && covers(last, scope)) continue
    if (last !== undefined && last.key === scope.key && overlaps(last, scope)) throw excluding(last, scope)
    wanted.push(scope)
  }
  return wanted
}

/** A whole inode comes before all of its ranges. */
function startOf({ range }: Scope): number {
  return range?.start ?? -1
}

function endOf({ range }: Scope): number {
  return range?.end ?? Number.MAX_SAFE_INTEGER
}

function excluding(...scopes: readonly [Scope, Scope]): LeaseholdError {
  const [first, second] = scopes.map((scope) => JSON.stringify(describeScope(scope)))
  return new LeaseholdError(
    'INVALID',
    `acquireAll cannot hold ${first} and ${second} together: they overlap. Name one range that has both.`,
  )
}
