import { unsupported, LeaseholdError } from '../../core/errors.ts'
import { submitOnce } from '../../core/client/batcher.ts'
import type { ClaimStatus } from '../../core/contract/driver.ts'
import { isWithin, requestBounds, textFault } from '../../core/contract/bounds.ts'
import { checkOptions, type OptionNames } from '../../core/contract/option-names.ts'
import { scopeOf, storeKey, type Scope } from '../../core/contract/scope.ts'
import type { Client } from '../client/client.ts'
import { eachLock, inspectLock, type LockInfo, type LockStatus } from './inspection.ts'
import { couldNotBeAsked } from '../client/acquire-error.ts'

/** Which holder to evict, and why. */
export interface EvictOptions {
  /** Why: the holder gets this reason, and the audit of a server keeps it. */
  readonly reason: string
  /**
   * Evicts only the holder with this fence.
   *
   * @default every holder whose claim overlaps the scope
   */
  readonly fence?: number | undefined
}

const evictNames: OptionNames<EvictOptions> = { reason: true, fence: true }

/** Takes a lock from its holders at once. Resolves to how many were evicted. @internal */
export async function evictHolders(client: Client, scope: Scope, options: EvictOptions): Promise<number> {
  if (!client.allowForce) {
    throw new LeaseholdError('INVALID', 'evict takes locks from live holders. Pass allowForce: true to connect.')
  }
  checkOptions(options, evictNames, 'evict')
  if (typeof options?.reason !== 'string' || options.reason === '') {
    throw new LeaseholdError('INVALID', 'evict needs a reason, which the holder gets.')
  }
  const fault = textFault(options.reason, requestBounds.reasonBytesMax)
  if (fault !== undefined) throw new LeaseholdError('INVALID', `reason ${fault}.`)
  if (options.fence !== undefined && !isWithin(options.fence, requestBounds.positive)) {
    throw new LeaseholdError('INVALID', `fence is ${String(options.fence)}. Use the fence that inspect shows.`)
  }
  if (client.driver.supports.evict.length === 0) throw unsupported('evict')
  const key = storeKey(client.namespace, scope.key)
  let evicted = 0
  for (;;) {
    const { holders = [], held = 0 } = (await inspectLock(client, scope)) ?? {}
    const isAll = held === holders.length
    const fences = holders.map(({ fence }) => fence)
    // A holder that is not listed can still be evicted by its fence.
    const { reason, fence: only } = options
    const chosen = only === undefined ? fences : fences.includes(only) || !isAll ? [only] : []
    const statuses = await Promise.all(
      chosen.map((fence) => submitOnce(client.batcher, { op: 'evict', key, fence, reason })),
    )
    // An unknown outcome must not count as "not evicted". Evicting again is safe: a fence names one grant.
    for (const status of statuses) refuseUnknown(status, client, scope)
    const gone = statuses.filter((status) => status.state === 'absent' && status.reason === 'evicted').length
    evicted += gone
    // A listing shows a thousand holders: go on with the next ones.
    if (isAll || only !== undefined || gone === 0) return evicted
  }
}

/** Makes the store clear locks whose leases are over. Resolves to how many. @internal */
export async function sweepLocks(client: Client): Promise<number> {
  const { batcher, environment } = client
  const stale: string[] = []
  for await (const lock of eachLock(client, { limit: 1000 })) {
    if ([...lock.holders, ...lock.waiters].some((claim) => claim.expired)) stale.push(lock.key)
  }
  // Any request makes the store clear expired claims of its key; releasing an unknown id does nothing else.
  const releases = stale.map((key) => submitOnce(batcher, { op: 'release', key, id: environment.id() }))
  for (const [index, status] of (await Promise.all(releases)).entries()) {
    refuseUnknown(status, client, scopeOf({ key: stale[index] ?? '' }))
  }
  return stale.length
}

function refuseUnknown(status: ClaimStatus, client: Client, scope: Scope): void {
  if (status.state === 'unknown') throw couldNotBeAsked(client, scope, status.error)
}

/** Whether a lock is held, in short. @internal */
export function lockStatusOf(info: LockInfo | null): LockStatus {
  const holder = info?.holders.find((claim) => !claim.expired)
  const waiting = info?.waiting ?? 0
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
