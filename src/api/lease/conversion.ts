import { unsupported, LeaseholdError } from '../../core/errors.ts'
import type { AbsentReason, Mode } from '../../core/contract/driver.ts'
import { describeScope } from '../../core/contract/scope.ts'
import { acquireError } from '../client/acquire-error.ts'
import { Acquisition, type Miss, type Sharing } from '../client/acquisition.ts'
import { checkWaitOptions, waitMsOf, type AcquireTerms, type WaitOptions } from '../options.ts'
import { beingPassedOn } from './lease-errors.ts'
import type { LeaseHandle } from './lease-handle.ts'

/** Turns a lease into one of another mode, without letting go in between. */
export async function convert(lease: LeaseHandle, mode: Mode, options: WaitOptions = {}): Promise<LeaseHandle> {
  const { client } = lease
  checkWaitOptions(options, 'upgrade')
  client.refuseIfClosed()
  lease.refuseUnlessHeld()
  const { supports } = client.driver
  if (!supports.convert || !supports.shared) throw unsupported('conversions')
  if (lease.claim.limit !== undefined)
    throw invalid(lease, 'is a permit of a semaphore, which has nothing to convert to')
  if (lease.claim.mode === mode) return lease
  const waitMs = mode === 'shared' ? 0 : options.wait === undefined ? Infinity : waitMsOf(options.wait)
  return replaceLease(lease, { sharing: { mode }, signal: options.signal, waitMs })
}

/** What takes the place of a lease. */
export interface Replacement {
  readonly sharing: Sharing
  /** What differs from the terms of the lease. */
  readonly terms?: Partial<AcquireTerms>
  readonly signal?: AbortSignal | undefined
  readonly waitMs: number
}

/** Puts a new claim in the place of a held one and ends the old lease. If the new claim is refused, the old lease stays as it was. */
export function replaceLease(lease: LeaseHandle, replacement: Replacement): Promise<LeaseHandle> {
  const { client, holdUntil, scope } = lease
  const { signal, waitMs } = replacement
  const terms: AcquireTerms = {
    ...lease.terms,
    ...lease.renewal,
    maxHoldMs: holdUntil === undefined ? undefined : Math.max(1, Math.floor(holdUntil - client.environment.now())),
    holdUntil,
    evict: undefined,
    // The `retry` of the lease bounds its own acquire, not a conversion: `wait` alone does.
    waitPolicy: { ...lease.terms.waitPolicy, queueMs: undefined, signal },
    ...replacement.terms,
  }
  const sharing = { ...replacement.sharing, replaces: lease.claim.id }
  return new Promise((resolve, reject) => {
    if (lease.entries > 1) throw invalid(lease, 'was entered more than once. Leave it as often before converting it')
    // Of two conversions the store would refuse one, and this client could not tell which. A conversion during a hand-off would
    // take the lock from the process that resumes it.
    if (lease.passing !== undefined) throw beingPassedOn(lease, lease.passing)
    lease.converting(terms.ttlMs)
    try {
      new Acquisition(client, { scope, sharing, terms, waitMs }, (outcome, acquisition) => {
        if (outcome.type === 'granted') return resolve(lease.succeededBy(acquisition, outcome))
        lease.converting(undefined)
        conversionError(lease, acquisition, outcome).then(reject, reject)
      }).start()
    } catch (error) {
      // No claim was sent.
      lease.converting(undefined)
      reject(error)
    }
  })
}

/** Reasons for which the lease that was to be converted has ended. */
const endings: ReadonlySet<AbsentReason> = new Set(['unknown', 'expired', 'max-hold', 'evicted'])

async function conversionError(lease: LeaseHandle, acquisition: Acquisition, miss: Miss): Promise<LeaseholdError> {
  if (miss.type !== 'refused' || !endings.has(miss.status.reason)) return acquireError(acquisition, miss)
  const name = JSON.stringify(describeScope(lease.scope))
  return new LeaseholdError('NOT_HELD', `${name} ended before it could be converted. Acquire it again.`, {
    scope: describeScope(lease.scope),
    key: lease.key,
    fence: lease.fence,
    ...(lease.loss !== undefined && { cause: lease.loss }),
  })
}

function invalid(lease: LeaseHandle, why: string): LeaseholdError {
  return new LeaseholdError('INVALID', `${JSON.stringify(describeScope(lease.scope))} ${why}.`)
}
