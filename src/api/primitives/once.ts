import { unsupported, LeaseholdError, messageOf } from '../../core/errors.ts'
import { durationMs, positiveMs, type Duration } from '../../core/time/duration.ts'
import { checkOptions, type OptionNames } from '../../core/contract/option-names.ts'
import { named } from '../../core/contract/scope.ts'
import { exclusively } from '../client/acquisition.ts'
import { handOff } from '../lease/hand-off.ts'
import { LeaseHandle } from '../lease/lease-handle.ts'
import { checkTtl } from '../lease/lease-limits.ts'
import type { AcquireOptions, AcquireTerms } from '../options.ts'
import { asOwner, bodyOwner } from '../owners/current-owner.ts'
import { acquireError } from '../client/acquire-error.ts'
import type { Acquirer } from '../client/acquirer.ts'
import type { Body } from '../lock.ts'

/** The options of `locks.once`. */
export interface OnceOptions extends Pick<AcquireOptions, 'metadata'> {
  /** The longest a run can take. Then its signal fires and another machine may run, also after a crash. */
  readonly atMost: Duration
  /**
   * Nobody else runs for this long after a run began, however short it was: more than the clocks may differ.
   *
   * @default 0
   */
  readonly atLeast?: Duration | undefined
  /**
   * What becomes of the lock if the body throws. `keep`: a failed run counts as a run, and nobody runs again within `atLeast`. `release`:
   * the lock is free at once, so the next call of any machine runs the body again.
   *
   * @default 'keep'
   *
   * @example
   * ```ts
   * import { connect } from 'leasehold'
   *
   * await using locks = await connect('memory:')
   * const run = (work: () => void) => locks.once('import', { atMost: '10m', atLeast: '1m', onError: 'release' }, work)
   * await run(() => { throw new Error('The file is not there yet') }).catch(() => {})
   * await run(() => {}) // { ran: true, … }: the failed run left nothing behind
   * ```
   */
  readonly onError?: 'keep' | 'release' | undefined
}

const onceNames: OptionNames<OnceOptions> = { atMost: true, atLeast: true, onError: true, metadata: true }

/** Whether this process ran the body, and what came of it. */
export type OnceResult<Result> =
  | { readonly ran: true; readonly result: Result; readonly fence: number }
  | { readonly ran: false }

/** Runs `body`, unless another process runs it now or began to within `atLeast`. @internal */
export async function runOnce<Result>(
  acquirer: Acquirer,
  name: string,
  options: OnceOptions,
  body: Body<Result>,
): Promise<OnceResult<Result>> {
  if (typeof body !== 'function') throw new LeaseholdError('INVALID', 'once needs a function to run.')
  checkOptions(options, onceNames, 'once')
  const { client } = acquirer
  if (client.driver.supports.lifetime === 'connection') {
    throw unsupported('once, which needs claims that outlive their client')
  }
  const atMostMs = checkTtl(positiveMs(options?.atMost, 'atMost'), 0, client.driver.supports, 'atMost')
  const atLeastMs = options.atLeast === undefined ? 0 : durationMs(options.atLeast, 'atLeast')
  if (atLeastMs > atMostMs) {
    throw new LeaseholdError('INVALID', `atLeast is ${atLeastMs} ms, more than atMost, ${atMostMs} ms.`)
  }
  const { metadata, onError = 'keep' } = options
  if (onError !== 'keep' && onError !== 'release') {
    throw new LeaseholdError('INVALID', `onError is ${JSON.stringify(onError)}. Use 'keep' or 'release'.`)
  }
  const scope = named(`once:${name}`)
  const owner = bodyOwner(undefined, () => client.environment.id())
  const asked: AcquireOptions = { ttl: atMostMs, heartbeat: 'manual', onConflict: 'wait', grace: 0 }
  // Detached: if this machine dies in the middle, no other one may start before `atMost`.
  const terms: AcquireTerms = { ...acquirer.terms({ ...asked, ...(metadata && { metadata }) }, owner), detached: true }
  const lease = await acquirer.attempt({ scope, sharing: exclusively, terms, waitMs: 0 })
  if (!(lease instanceof LeaseHandle)) {
    const { miss, acquisition } = lease
    if (miss.type === 'refused' && miss.status.reason === 'refused') return { ran: false }
    throw await acquireError(acquisition, miss)
  }
  let keepMs = onError === 'keep' ? atLeastMs : 0
  try {
    const result = await asOwner(owner, () => body(lease))
    keepMs = atLeastMs
    if (!lease.held && lease.loss !== undefined) throw lease.loss
    return { ran: true, result, fence: lease.fence }
  } finally {
    await letGo(acquirer, lease, keepMs)
  }
}

/** Releases the lock, or lets it expire `keepMs` after the run began if the run was shorter. */
async function letGo({ client }: Acquirer, lease: LeaseHandle, keepMs: number): Promise<void> {
  const restMs = Math.ceil(keepMs - lease.heldMs)
  if (restMs <= 0) return void (await lease.release())
  // A lost lease, or a closing client: the lease expires after `atMost`. A release would come too early.
  if (!lease.held || client.closed) return
  try {
    await handOff(lease, Math.max(restMs, client.driver.supports.ttlMinMs))
  } catch (error) {
    // The lease stays as it is and expires after `atMost`: later, never earlier.
    client.log('warn', `the lease of a finished run could not be shortened to atLeast: ${messageOf(error)}`)
    if (lease.held) lease.passOn('handed-off')
  }
}
