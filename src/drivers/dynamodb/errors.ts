import { LeaseholdError, messageOf, plainMessageOf } from '../../core/errors.ts'
import { CallTimedOut } from '../kit/call-timeout.ts'
import { explained, explanations, refusedBy, type Explanation } from '../kit/explanation.ts'

/** What the errors of the AWS SDK have. */
interface AwsFault {
  readonly name?: unknown
  readonly $metadata?: { readonly httpStatusCode?: number; readonly attempts?: number }
}

/** The message of a call that timed out. */
export const noAnswerWithin = (withinMs: number): string => `There was no answer within ${withinMs} ms`

/** Somebody else wrote the item, or the client sent its own write twice and the first one counted. */
export function isConflict(error: unknown): boolean {
  return nameOf(error) === 'ConditionalCheckFailedException'
}

/** Whether the client sent the command more than once, as it does when a reply is lost. */
export function wasRepeated(error: unknown): boolean {
  return (error as AwsFault | undefined)?.$metadata?.attempts !== 1
}

/** There is no such table. */
export function isMissingTable(error: unknown): boolean {
  return nameOf(error) === 'ResourceNotFoundException'
}

/** Another client makes the same table. */
export function isBeingMade(error: unknown): boolean {
  return nameOf(error) === 'ResourceInUseException'
}

/** The error a user sees: what happened, and what to do. */
export function dynamodbError(error: unknown): LeaseholdError {
  if (error instanceof CallTimedOut) return explained('DynamoDB', error, explain)
  const cause = withoutRequest(error)
  const { name, message: text } = cause
  const message = name === 'Error' ? text : `${name}: ${text}`
  const said = explained('DynamoDB', error, explain, { message, cause })
  if (said === error || said.reason !== 'busy') return said
  const details = { reason: 'busy', retryAfterMs: throttledMs, cause }
  return new LeaseholdError('UNAVAILABLE', plainMessageOf(said), details)
}

/** How long to leave a table alone that takes no more: its capacity is counted by the second. */
const throttledMs = 1000

/**
 * The SDK's errors carry the request, with the session token among its headers, and AWS explains a refused signature by all that was
 * signed: neither may be printed.
 */
function withoutRequest(error: unknown): Error {
  const [firstLine = ''] = messageOf(error).split('\n')
  const { code, $metadata } = (error ?? {}) as { readonly code?: unknown; readonly $metadata?: unknown }
  const cause = new Error(firstLine.slice(0, 300).replace(/\.$/, ''))
  return Object.assign(cause, { name: nameOf(error) || 'Error', code, $metadata })
}

const busy: Explanation = {
  reason: 'busy',
  advice: 'The table, or this key, has more requests than its capacity. Use on-demand capacity, or longer heartbeats.',
}
const credentials: Explanation = {
  reason: 'auth',
  advice:
    'The AWS SDK finds credentials in the environment, in ~/.aws, or of the instance; `aws sts get-caller-identity` shows them.',
}
const expired: Explanation = {
  reason: 'auth',
  advice: 'Sign in again, or give the client credentials that it can refresh.',
}
const skewed: Explanation = {
  reason: 'auth',
  advice: "Set this machine's clock (NTP): AWS takes signatures of the last minutes only.",
}
const forbidden: Explanation = {
  reason: 'auth',
  advice: 'The policy must allow dynamodb:DescribeTable, BatchGetItem, PutItem and Scan on the table.',
}

const byName: Readonly<Record<string, Explanation>> = {
  ProvisionedThroughputExceededException: busy,
  ThrottlingException: busy,
  Throttling: busy,
  RequestLimitExceeded: busy,
  LimitExceededException: busy,
  TransactionConflictException: busy,
  ReplicatedWriteConflictException: busy,
  AccessDeniedException: forbidden,
  UnrecognizedClientException: credentials,
  MissingAuthenticationTokenException: credentials,
  CredentialsProviderError: credentials,
  InvalidSignatureException: credentials,
  SignatureDoesNotMatch: credentials,
  IncompleteSignatureException: credentials,
  ExpiredTokenException: expired,
  ExpiredToken: expired,
  TokenRefreshRequired: expired,
  RequestTimeTooSkewed: skewed,
  RequestExpired: skewed,
  RequestInTheFuture: skewed,
  ResourceNotFoundException: { reason: 'configuration', advice: 'The table is gone.' },
}

function explain(error: unknown): Explanation {
  if (error instanceof CallTimedOut) return explanations.timedOut
  const name = nameOf(error)
  const text = messageOf(error)
  if (/Signature (?:expired|not yet current)/.test(text)) return skewed
  const known = byName[name]
  if (known !== undefined) return known
  if (text === 'Region is missing') return { reason: 'configuration', advice: 'Write ?region=, or set AWS_REGION.' }
  const status = (error as AwsFault | undefined)?.$metadata?.httpStatusCode
  if (status === 429) return busy
  if (status === undefined || status < 400) return explanations.network
  return status < 500 ? refusedBy('dynamodb') : { ...explanations.timedOut, reason: 'dynamodb' }
}

function nameOf(error: unknown): string {
  const { name } = (error ?? {}) as AwsFault
  return typeof name === 'string' ? name : ''
}
