import type { LeaseholdError } from '../core/errors.ts'
import { toScope, type Scope, type ScopeLike } from '../core/scope.ts'
import { attempt, exclusively, type Acquired, type Missed } from './acquisition.ts'
import type { Client } from './client.ts'
import type { Lease } from './lease.ts'
import type { ReleaseResult } from './release-result.ts'
import type { Terms } from './options.ts'
import { refusal } from './refusal.ts'

/** Several locks, held together. */
export class LeaseSet implements AsyncDisposable {
  /** In the canonical order of their keys. */
  readonly leases: readonly Lease[]
  #signal: AbortSignal | undefined

  /** @internal */
  constructor(leases: readonly Lease[]) {
    this.leases = leases
  }

  /** Aborts as soon as one of the leases is lost. */
  get signal(): AbortSignal {
    this.#signal ??= AbortSignal.any(this.leases.map((lease) => lease.signal))
    return this.#signal
  }

  /** Whether every one of them can still be trusted. */
  get held(): boolean {
    return this.leases.every((lease) => lease.held)
  }

  /** Lets all of them go, in one batch. */
  release(): Promise<readonly ReleaseResult[]> {
    return Promise.all(this.leases.map((lease) => lease.release()))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release()
  }
}

/**
 * Takes all scopes or none. Everybody takes them in the same order and never waits while holding a later one, so two
 * calls cannot wait for each other. Uncontended, it costs one round trip. Gives the error of the scope that failed.
 */
export async function takeAll(
  client: Client,
  scopes: readonly ScopeLike[],
  terms: Terms,
  waitMs: number,
): Promise<LeaseSet | LeaseholdError> {
  const wanted = canonicalOrder(scopes.map(toScope))
  const since = client.environment.now()
  const until = since + waitMs
  const held: Lease[] = []
  while (held.length < wanted.length) {
    // All that is left, at once and without waiting: this is the round trip that mostly suffices.
    const rest = wanted.slice(held.length)
    const tries = await Promise.all(rest.map((scope) => attempt(client, scope, exclusively, terms, 0)))
    const firstMiss = tries.findIndex((acquired) => !('lease' in acquired))
    const kept = firstMiss < 0 ? tries : tries.slice(0, firstMiss)
    held.push(...leasesIn(kept))
    if (firstMiss < 0) break
    await Promise.all(leasesIn(tries.slice(firstMiss)).map((lease) => lease.release()))
    // Then wait for the first that was missing, holding only those before it.
    const scope = rest[firstMiss] as Scope
    const miss = tries[firstMiss] as Missed
    const leftMs = Math.max(0, until - client.environment.now())
    const mayWait = leftMs > 0 && worthWaiting(miss)
    const acquired = mayWait ? await attempt(client, scope, exclusively, terms, leftMs) : miss
    if (!('lease' in acquired)) {
      await Promise.all(held.map((lease) => lease.release()))
      const waitedMs = client.environment.now() - since
      return refusal(client, scope, { ...(waitMs > 0 ? outOfTime(acquired) : acquired), waitedMs }, terms)
    }
    held.push(acquired.lease)
  }
  return new LeaseSet(held)
}

function worthWaiting(missed: Missed): boolean {
  return missed.miss.type === 'failed' || wasRefused(missed)
}

/** Somebody else holds it. */
function wasRefused({ miss }: Missed): boolean {
  return miss.type === 'refused' && miss.standing.reason === 'refused'
}

/** Who wanted to wait, and had no time left for it, was not refused. */
function outOfTime(missed: Missed): Missed {
  return wasRefused(missed) ? { ...missed, miss: { type: 'timeout', ahead: undefined, error: undefined } } : missed
}

function leasesIn(tries: readonly Acquired[]): Lease[] {
  return tries.flatMap((acquired) => ('lease' in acquired ? [acquired.lease] : []))
}

/** By key, then by the start of the range; each scope once. */
function canonicalOrder(scopes: readonly Scope[]): readonly Scope[] {
  const byName = new Map(
    scopes.map((scope) => [`${scope.key} ${scope.range?.start ?? ''} ${scope.range?.end ?? ''}`, scope]),
  )
  return [...byName.values()].toSorted((one, other) => {
    if (one.key !== other.key) return one.key < other.key ? -1 : 1
    return (one.range?.start ?? -1) - (other.range?.start ?? -1)
  })
}
