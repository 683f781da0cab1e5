import { overlaps } from '../../core/rule/conflict.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { isContention } from '../client/waiter.ts'
import { covers, describeScope, toScope, type Scope, type ScopeLike } from '../../core/contract/scope.ts'
import { attempt, exclusively, refuseUnsupported, type Acquired, type Missed } from '../client/acquisition.ts'
import type { Client } from '../client/client.ts'
import type { LeaseHandle } from '../lease/lease-handle.ts'
import type { LeaseSet } from '../lease.ts'
import type { ReleaseResult } from '../lease/release-result.ts'
import type { AcquireOptions, Terms } from '../options.ts'
import { refusal } from '../client/refusal.ts'
import type { Acquirer } from '../client/acquirer.ts'

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
  // An owner of its own: while it waits for one of them it keeps those before.
  const terms = acquirer.terms(options, acquirer.newOwner(options))
  const waitMs = terms.failOnConflict ? 0 : (terms.waitMs ?? Infinity)
  const wanted = scopes.map(toScope)
  if (waitMs > 0) for (const scope of wanted) acquirer.refuseOwnDeadlock(scope, exclusively, terms)
  const taken = await takeAll(acquirer.client, wanted, terms, waitMs)
  if (taken instanceof LeaseholdError) throw taken
  return taken
}

/**
 * Takes all scopes or none. Everybody takes them in the same order and never waits while holding a later one, so two
 * calls cannot wait for each other. Uncontended, it costs one round trip. Gives the error of the scope that failed.
 */
async function takeAll(
  client: Client,
  scopes: readonly ScopeLike[],
  terms: Terms,
  waitMs: number,
): Promise<LeaseSet | LeaseholdError> {
  const wanted = canonicalOrder(scopes.map(toScope))
  // Before any is asked for: nobody would let go of those that are granted beside one that cannot be.
  for (const scope of wanted) refuseUnsupported(client, scope, exclusively)
  const since = client.environment.now()
  const until = since + waitMs
  const { retry, queueMs } = terms.waitPolicy
  let queuedMs = 0
  const held: LeaseHandle[] = []
  for (;;) {
    // One that was lost meanwhile is had again first, without those after it.
    const lostAt = held.findIndex((lease) => !lease.held)
    if (lostAt >= 0) await Promise.all(held.splice(lostAt).map((lease) => lease.release()))
    if (held.length === wanted.length) return new HeldLeases(held)
    // All that is left, at once and without waiting: this is the round trip that mostly suffices.
    const rest = wanted.slice(held.length)
    const tries = await Promise.all(rest.map((scope) => attempt(client, scope, exclusively, terms, 0)))
    const firstMiss = tries.findIndex((acquired) => !('lease' in acquired))
    const kept = firstMiss < 0 ? tries : tries.slice(0, firstMiss)
    held.push(...leasesIn(kept))
    if (firstMiss < 0) continue
    await Promise.all(leasesIn(tries.slice(firstMiss)).map((lease) => lease.release()))
    // Then wait for the first that was missing, holding only those before it.
    const scope = rest[firstMiss] as Scope
    const miss = tries[firstMiss] as Missed
    const now = client.environment.now()
    const leftMs = Math.max(0, until - now)
    const mayWait = leftMs > 0 && retry?.attempts !== 1 && worthWaiting(miss)
    // One queue after the other, and all of them within what `retry` allows for one.
    const waitPolicy = {
      ...terms.waitPolicy,
      queueMs: queueMs === undefined ? undefined : Math.max(1, queueMs - queuedMs),
    }
    const acquired = mayWait ? await attempt(client, scope, exclusively, { ...terms, waitPolicy }, leftMs) : miss
    queuedMs += client.environment.now() - now
    if (!('lease' in acquired)) {
      await Promise.all(held.map((lease) => lease.release()))
      const waitedMs = Math.round(client.environment.now() - since)
      return refusal(client, scope, { ...(waitMs > 0 ? outOfTime(acquired) : acquired), waitedMs }, terms)
    }
    held.push(acquired.lease)
  }
}

function worthWaiting(missed: Missed): boolean {
  return missed.miss.type === 'failed' || isContention(missed.miss)
}

/** Who wanted to wait, and had no time left for it, was not refused. */
function outOfTime(missed: Missed): Missed {
  return isContention(missed.miss)
    ? { ...missed, miss: { type: 'timeout', ahead: undefined, error: undefined } }
    : missed
}

function leasesIn(tries: readonly Acquired[]): LeaseHandle[] {
  return tries.flatMap((acquired) => ('lease' in acquired ? [acquired.lease] : []))
}

/**
 * By key, then by the start of the range. Each scope once, and none that another one covers: the lease on that protects it.
 * Those that overlap otherwise would wait for each other.
 */
function canonicalOrder(scopes: readonly Scope[]): readonly Scope[] {
  const ordered = scopes.toSorted((one, other) => {
    if (one.key !== other.key) return one.key < other.key ? -1 : 1
    return startOf(one) - startOf(other) || endOf(other) - endOf(one)
  })
  const wanted: Scope[] = []
  for (const scope of ordered) {
    // In this order, what touches any of those before touches the last of them.
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

function excluding(one: Scope, other: Scope): LeaseholdError {
  const [first, second] = [one, other].map((scope) => JSON.stringify(describeScope(scope)))
  return new LeaseholdError(
    'INVALID',
    `acquireAll cannot hold ${first} and ${second} together: they overlap. Name one range that has both.`,
  )
}
