import { LeaseholdError, type ErrorCode } from '../../core/errors.ts'
import { toWireError, type WireError } from '../../core/wire/replies.ts'
import { json, type Answer } from './call.ts'
import { problem } from './problem.ts'

/** Why a call was refused, for the metrics. */
export type RejectReason =
  | 'draining'
  | 'limit'
  | 'quota'
  | 'rate'
  | 'host'
  | 'route'
  | 'token'
  | 'right'
  | 'body'
  | 'input'
  | 'store'
  /** The lock was not granted, or is not held. */
  | 'lock'

/** A call that is answered with an error. Nothing has been asked of the store, unless the reason is `lock` or `store`. */
export class HttpError extends Error {
  override readonly name = 'HttpError'
  readonly status: number
  readonly why: RejectReason
  readonly error: LeaseholdError
  readonly headers: Readonly<Record<string, string>>

  constructor(
    status: number,
    why: RejectReason,
    error: LeaseholdError,
    headers: Readonly<Record<string, string>> = {},
  ) {
    super(error.message)
    this.status = status
    this.why = why
    this.error = error
    this.headers = headers
  }

  get answer(): Answer {
    const error = toWireError(this.error)
    return json({ error }, this.status, this.#headersOf(error))
  }

  /** The same as a problem document. */
  get problem(): Answer {
    const error = toWireError(this.error)
    return problem(this.status, error, this.#headersOf(error))
  }

  #headersOf({ retryAfterMs }: WireError): Readonly<Record<string, string>> {
    const retryAfter = retryAfterMs === undefined ? {} : { 'retry-after': String(Math.ceil(retryAfterMs / 1000)) }
    return { ...retryAfter, ...this.headers }
  }
}

const statusByCode: Partial<Readonly<Record<ErrorCode, number>>> = {
  INVALID: 400,
  UNSUPPORTED: 501,
  UNAVAILABLE: 503,
  CLOSED: 503,
}

/** The refusal that an error of a route stands for; undefined if it is a fault of ours. */
export function httpErrorOf(error: unknown): HttpError | undefined {
  if (error instanceof HttpError) return error
  if (!(error instanceof LeaseholdError)) return undefined
  const status = statusByCode[error.code]
  return status === undefined ? undefined : new HttpError(status, status === 503 ? 'store' : 'input', error)
}

/** The token does not allow it: says what it would take. */
export function forbidden(message: string): HttpError {
  return new HttpError(403, 'right', notAllowed(message))
}

/** As {@link forbidden}, for one request among others. */
export function notAllowed(message: string): LeaseholdError {
  return new LeaseholdError('UNAVAILABLE', message, { reason: 'auth' })
}

/** The call, or something in it, makes no sense. */
export function invalid(message: string, status = 400, why: RejectReason = 'input'): HttpError {
  return new HttpError(status, why, new LeaseholdError('INVALID', message))
}

/** Too much at once: a little later there may be room. */
export function tooMuch(message: string, retryAfterMs: number, why: RejectReason = 'limit'): HttpError {
  return new HttpError(429, why, new LeaseholdError('UNAVAILABLE', message, { reason: 'busy', retryAfterMs }))
}

/** A fault of ours: no inner detail, the log has that. */
export const internalFault = new HttpError(
  500,
  'store',
  new LeaseholdError('UNAVAILABLE', "The server failed. The server's log says how.", { reason: 'server' }),
)
