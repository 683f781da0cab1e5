import type { AbsentReason, Mode } from '../../core/contract/driver.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { describeScope } from '../../core/contract/scope.ts'
import { pursue, type Missed, type Sharing } from '../client/acquisition.ts'
import type { Client } from '../client/client.ts'
import type { LeaseHandle } from './lease-handle.ts'
import { beingPassedOn } from './lease-errors.ts'
import { checkWaitOptions, unsupported, waitMsOf, type WaitOptions, type Terms } from '../options.ts'
import { refusal } from '../client/refusal.ts'

/** Turns a lease into one of another mode, without letting go in between. */
export async function convert(
  client: Client,
  lease: LeaseHandle,
  mode: Mode,
  options: WaitOptions = {},
): Promise<LeaseHandle> {
  checkWaitOptions(options, 'upgrade')
  client.refuseIfClosed()
  lease.refuseUnlessHeld()
  const { supports } = client.driver
  if (!supports.convert || !supports.shared) throw unsupported('conversions')
  if (lease.claim.limit !== undefined)
    throw invalid(lease, 'is a permit of a semaphore, which has nothing to convert to')
  if (lease.claim.mode === mode) return lease
  const waitMs = mode === 'shared' ? 0 : options.wait === undefined ? Infinity : waitMsOf(options.wait)
  return replaceLease(client, lease, { mode }, { signal: options.signal }, waitMs)
}

/** Puts a new claim in the place of a held one. The old lease is over then; refused, it stays as it was. */
export function replaceLease(
  client: Client,
  lease: LeaseHandle,
  sharing: Sharing,
  changes: Partial<Terms> & { readonly signal?: AbortSignal | undefined },
  waitMs: number,
): Promise<LeaseHandle> {
  const { signal, ...changed } = changes
  const { holdUntil } = lease
  const terms: Terms = {
    ...lease.terms,
    ...lease.renewal,
    maxHoldMs: holdUntil === undefined ? undefined : Math.max(1, Math.floor(holdUntil - client.environment.now())),
    holdUntil,
    evict: undefined,
    // How often the lease itself was asked for does not bound what comes of it: `wait` alone does.
    waitPolicy: { ...lease.terms.waitPolicy, queueMs: undefined, signal },
    ...changed,
  }
  return new Promise((resolve, reject) => {
    if (lease.entries > 1) throw invalid(lease, 'was entered more than once. Leave it as often before converting it')
    // Of two conversions the store would refuse one, and the claim must know of the other all the same. A conversion of what is
    // handed off would take the lock from whoever resumes it.
    if (lease.passing !== undefined) throw beingPassedOn(lease, lease.passing)
    lease.converting(terms.ttlMs)
    try {
      pursue(
        client,
        lease.scope,
        { ...sharing, replaces: lease.claim.id },
        terms,
        waitMs,
        (converted) => {
          lease.passOn('converted', converted)
          resolve(converted)
        },
        (missed) => {
          lease.converting(undefined)
          conversionRefusal(client, lease, missed, terms).then(reject, reject)
        },
      )
    } catch (error) {
      // Nothing was asked for.
      lease.converting(undefined)
      reject(error)
    }
  })
}

/** Reasons that say: what was to be converted is no more. */
const endings: ReadonlySet<AbsentReason> = new Set(['unknown', 'expired', 'max-hold', 'evicted'])

async function conversionRefusal(
  client: Client,
  lease: LeaseHandle,
  missed: Missed,
  terms: Terms,
): Promise<LeaseholdError> {
  const { miss } = missed
  if (miss.type !== 'refused' || !endings.has(miss.status.reason)) return refusal(client, lease.scope, missed, terms)
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
