import { durationMs, positiveMs, type Duration } from '../../core/time/duration.ts'
import { LeaseholdError, messageOf } from '../../core/errors.ts'
import { checkOptions, type OptionNames } from '../../core/contract/option-names.ts'
import { named } from '../../core/contract/scope.ts'
import { attempt, exclusively } from '../client/acquisition.ts'
import { handOff } from '../lease/hand-off.ts'
import type { LeaseHandle } from '../lease/lease-handle.ts'
import { checkTtl } from '../lease/lease-limits.ts'
import { unsupported, type AcquireOptions, type Terms } from '../options.ts'
import { asOwner, bodyOwner } from '../owners/current-owner.ts'
import { refusal } from '../client/refusal.ts'
import type { Body, Acquirer } from '../client/acquirer.ts'

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
}

const onceNames: OptionNames<OnceOptions> = { atMost: true, atLeast: true, metadata: true }

/** Whether this machine was the one. */
export type OnceResult<Result> =
  | { readonly ran: true; readonly result: Result; readonly fence: number }
  | { readonly ran: false }

/** Runs `body` unless somebody, somewhere, did so within `atLeast` or is at it. @internal */
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
  const { metadata } = options
  const scope = named(`once:${name}`)
  const owner = bodyOwner(undefined, () => client.environment.id())
  const asked: AcquireOptions = { ttl: atMostMs, heartbeat: 'manual', onConflict: 'wait', grace: 0 }
  // Detached: a machine that dies in the middle must not make another one start before `atMost`.
  const terms: Terms = { ...acquirer.terms({ ...asked, ...(metadata && { metadata }) }, owner), detached: true }
  const acquired = await attempt(client, scope, exclusively, terms, 0)
  if (!('lease' in acquired)) {
    const { miss } = acquired
    if (miss.type === 'refused' && miss.status.reason === 'refused') return { ran: false }
    throw await refusal(client, scope, acquired, terms)
  }
  const { lease } = acquired
  try {
    const result = await asOwner(owner, () => body(lease))
    if (!lease.held && lease.loss !== undefined) throw lease.loss
    return { ran: true, result, fence: lease.fence }
  } finally {
    await letGo(acquirer, lease, atLeastMs)
  }
}

/** Gives the lock back, or leaves it to run out by itself if the run was short. */
async function letGo({ client }: Acquirer, lease: LeaseHandle, atLeastMs: number): Promise<void> {
  const restMs = Math.ceil(atLeastMs - lease.heldMs)
  if (restMs <= 0) return void (await lease.release())
  // Lost, or left to itself by a client that is being closed: it runs out after `atMost`. To release it would be too early.
  if (!lease.held || client.closed) return
  try {
    await handOff(client, lease, Math.max(restMs, client.driver.supports.ttlMinMs))
  } catch (error) {
    // It stays as it is then, and runs out after `atMost`: later, never earlier.
    client.log('warn', `the end of a run could not be told to the store: ${messageOf(error)}`)
    if (lease.held) lease.passOn('handed-off')
  }
}
