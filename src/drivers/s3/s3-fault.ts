import type { LeaseholdError } from '../../core/errors.ts'
import { CallTimedOut } from '../kit/call-timeout.ts'
import { explained, explanations, refusedBy, type Explanation } from '../kit/explanation.ts'

/** What S3 answered in place of what was asked. Says nothing of what was sent: it was signed with a secret. */
export class S3Fault extends Error {
  override readonly name = 'S3Fault'
  readonly status: number
  /** S3's own name of the fault, such as `AccessDenied`. */
  readonly code: string
  readonly region: string | undefined
  readonly retryAfterMs: number | undefined

  constructor(fault: {
    readonly status: number
    readonly code: string
    readonly message: string
    readonly region?: string | undefined
    readonly retryAfterMs?: number | undefined
  }) {
    super(`${fault.code === '' ? `Status ${fault.status}` : fault.code}: ${fault.message.replace(/\.$/, '')}`)
    this.status = fault.status
    this.code = fault.code
    this.region = fault.region
    this.retryAfterMs = fault.retryAfterMs
  }

  /** S3 asks for a pause, or failed by itself: the same request may succeed later. */
  get isPassing(): boolean {
    return this.status === 429 || this.status >= 500 ? this.status !== 501 : this.code === 'RequestTimeout'
  }

  /** The bucket is there and the object is not. Any other 404 may be a proxy's. */
  get isMissingObject(): boolean {
    return this.status === 404 && this.code === 'NoSuchKey'
  }

  /** The condition of a write was not met, or another write of the same object is under way. */
  get isConflict(): boolean {
    return this.status === 412 || this.status === 409
  }
}

/**
 * The ETag to compare with. A write on an empty one would be on no condition. A proxy that compresses calls it weak, though the content is
 * the same; S3 knows the strong one alone.
 */
export function strongEtag(etag: string | null | undefined): string {
  const strong = etag?.replace(/^W\//, '') ?? ''
  if (strong === '') throw new Error('The answer has no ETag. This is not S3, or a proxy hides it')
  return strong
}

/** The error a user sees: what happened, and what to do. */
export function s3Error(error: unknown): LeaseholdError {
  return explained('S3', error, explain)
}

function explain(error: unknown): Explanation {
  if (error instanceof CallTimedOut) return explanations.timedOut
  if (!(error instanceof S3Fault)) return explanations.network
  const { status, code, region } = error
  if (status === 301 || status === 307 || code === 'AuthorizationHeaderMalformed') {
    return misconfigured(`The bucket is in another region: set region${region === undefined ? '' : ` to ${region}`}.`)
  }
  const known = byCode[code]
  if (known !== undefined) return known
  if (error.isPassing) return tooFast(error)
  if (status === 403 || status === 401) return denied
  return refusedBy('s3')
}

function tooFast({ status, code, retryAfterMs = 1000 }: S3Fault): Explanation {
  if (status !== 429 && status !== 503) return { reason: 'network', advice: 'S3 failed by itself. Try again.' }
  const advice = 'S3 asks for fewer requests a second. Wait, let fewer clients want the same lock, or renew less often.'
  return { reason: 'rate-limit', advice: `${advice}${code === '' ? ' This may be a proxy.' : ''}`, retryAfterMs }
}

function misconfigured(advice: string): Explanation {
  return { reason: 'configuration', advice }
}

const denied: Explanation = {
  reason: 'auth',
  advice: 'Allow s3:GetObject and s3:PutObject on the objects of the prefix, and s3:ListBucket on the bucket.',
}
const badKey: Explanation = {
  reason: 'auth',
  advice: 'Check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or what your function of credentials returns.',
}
const expired: Explanation = {
  reason: 'auth',
  advice: 'Temporary credentials have ended. Pass a function as `credentials`, which is asked for new ones.',
}

const byCode: Readonly<Record<string, Explanation>> = {
  AccessDenied: denied,
  AllAccessDisabled: denied,
  InvalidAccessKeyId: badKey,
  SignatureDoesNotMatch: badKey,
  InvalidToken: badKey,
  ExpiredToken: expired,
  TokenRefreshRequired: expired,
  RequestTimeTooSkewed: {
    reason: 'clock',
    advice: 'S3 refuses what a clock signs that is off by a quarter of an hour. Set the clock of this machine (NTP).',
  },
  InvalidObjectState: misconfigured(
    'A lifecycle rule moved the object to an archive: let it expire such objects instead.',
  ),
  NoSuchBucket: misconfigured('Create the bucket, or correct its name: Leasehold makes none.'),
  NotImplemented: misconfigured('This store cannot write on a condition. No lock is safe there: use another store.'),
  EntityTooLarge: { reason: 'full', advice: 'More claims wait for this key than one object of 16 MB can hold.' },
}
