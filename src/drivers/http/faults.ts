import { LeaseholdError, messageOf, plainMessageOf } from '../../core/errors.ts'
import { fromWireError } from '../../core/wire/replies.ts'
import type { ServerReply } from './server-client.ts'
import { replyBytesMax } from './transport-limits.ts'

/** Nothing can have been carried out. */
export class Unsent extends Error {
  override readonly name = 'Unsent'
  readonly fault: LeaseholdError

  constructor(fault: LeaseholdError) {
    super(fault.message)
    this.fault = fault
  }
}

/** The error of a call that got no reply. */
function unreachable(where: string, error: unknown): LeaseholdError {
  if (error instanceof LeaseholdError) return error
  const message = `The Leasehold server at ${where} cannot be reached: ${messageOf(error).replace(/\.$/, '')}.`
  return new LeaseholdError('UNAVAILABLE', message, { reason: 'network', cause: error })
}

/** Why a call got no reply: as {@link Unsent} if nothing can have reached the server. */
export function noReply(where: string, error: unknown, isSent: boolean): Error {
  const fault = unreachable(where, error)
  return isSent ? fault : new Unsent(fault)
}

/** The error of a call after the driver was closed. */
export function closed(where: string): LeaseholdError {
  return new LeaseholdError('CLOSED', `The connection to ${where} has been closed.`)
}

/** The error of a call that timed out. */
export function timedOut(where: string, milliseconds: number): LeaseholdError {
  const message = `The Leasehold server at ${where} has not answered for ${Math.round(milliseconds)} ms.`
  return new LeaseholdError('UNAVAILABLE', message, { reason: 'network' })
}

/** The error of a reply that no Leasehold server gives. */
export function meaningless(where: string, what: string): LeaseholdError {
  const message = `The Leasehold server at ${where} answered with ${what}. Is something else listening there?`
  return new LeaseholdError('UNAVAILABLE', message, { reason: 'network' })
}

/** The error of a reply that has no end. */
export function tooLong(where: string): LeaseholdError {
  return meaningless(where, `more than ${replyBytesMax} bytes`)
}

/** What is wrong with a reply that has no end of its own. */
export function brokeOff(where: string): string {
  return `The answer of the Leasehold server at ${where} broke off.`
}

/** What a reply other than 200 means. Thrown as {@link Unsent} if it says that nothing was carried out. */
export function refusalIn({ status, value, location }: ServerReply, where: string): Error {
  const said = fromWireError((value as { error?: unknown } | null | undefined)?.error)
  if (status >= 300 && status < 400) return new Unsent(redirected(where, location))
  const fault = said === undefined ? foreign(status, where) : serverError(status, said, where)
  return isRefused(status, said !== undefined) ? new Unsent(fault) : fault
}

/**
 * Whether nothing was carried out. A server of ours refuses before it asks its store; what stands before it may have
 * passed the call on before it timed out.
 */
function isRefused(status: number, isOurs: boolean): boolean {
  if (isOurs) return (status >= 400 && status < 500) || status === 501 || status === 503
  return status >= 400 && status < 500 && status !== 408 && status !== 499
}

function serverError(status: number, said: LeaseholdError, where: string): LeaseholdError {
  const { code, reason, retryAfterMs } = said
  const message = plainMessageOf(said)
  const details = { ...(reason !== undefined && { reason }), ...(retryAfterMs !== undefined && { retryAfterMs }) }
  if (status !== 401 && status !== 403) return new LeaseholdError(code, message, details)
  return new LeaseholdError('UNAVAILABLE', `${message} This was said by ${where}.`, { reason: 'auth' })
}

function foreign(status: number, where: string): LeaseholdError {
  if (status === 401 || status === 403) {
    const message = `Whatever answers at ${where} wants another authorization (${status}).`
    return new LeaseholdError('UNAVAILABLE', message, { reason: 'auth' })
  }
  return meaningless(where, `status ${status}`)
}

function redirected(where: string, location: string | undefined): LeaseholdError {
  const to = location === undefined ? 'elsewhere' : `to ${JSON.stringify(location)}`
  const message = `${where} redirects ${to}. Redirects are not followed: use the URL of the Leasehold server itself.`
  return new LeaseholdError('UNAVAILABLE', message, { reason: 'configuration' })
}
