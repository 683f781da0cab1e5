import { LeaseholdError, messageOf } from '../../core/errors.ts'
import { CallTimedOut } from '../kit/call-timeout.ts'
import { explained, explanations, refusedBy, type Explanation } from '../kit/explanation.ts'

/** Error codes of JetStream. */
export const apiCode = {
  noMessage: 10_037,
  noStream: 10_059,
  streamExists: 10_058,
  noMessageTtl: 10_166,
  wrongSequence: 10_071,
  wrongSequenceConstant: 10_164,
} as const

/** JetStream answered no, and changed nothing. */
export class JetStreamRefusal extends Error {
  readonly code: number

  constructor(code: number, description: string) {
    super(description)
    this.code = code
  }
}

/** What was received is no answer of JetStream. */
export class NoJetStream extends Error {}

/** Whether it is known that nothing was carried out. */
export function isNatsRefusal(error: unknown): boolean {
  if (error instanceof LeaseholdError || error instanceof JetStreamRefusal) return true
  return explain(error).isRefused === true
}

/** Whether there may be no stream: a write then finds nobody to answer, as it does without a leader. */
export function isStreamMissing(error: unknown): boolean {
  if (error instanceof JetStreamRefusal) return error.code === apiCode.noStream
  return explain(error) === failover
}

/** The error a user sees: what happened, and what to do. */
export function natsError(error: unknown): LeaseholdError {
  return explained('NATS', error, explain)
}

interface NatsExplanation extends Explanation {
  readonly isRefused?: boolean
}

const timedOut: NatsExplanation = explanations.timedOut
const badLogin: NatsExplanation = { ...explanations.badLogin, isRefused: true }
const missingRight: NatsExplanation = {
  reason: 'auth',
  advice: 'Give this user the permissions that docs/stores/nats.md lists.',
}
const failover: NatsExplanation = {
  reason: 'failover',
  advice: 'The bucket has no leader now, or JetStream is not enabled there; try again.',
  isRefused: true,
}

/** Names and codes of clients, and parts of messages, with what they mean. */
const byText: readonly (readonly [RegExp, NatsExplanation])[] = [
  // Thrown before anything is sent.
  [/ClosedConnectionError/, { ...explanations.network, isRefused: true }],
  // The answer was not received: what was asked may have been done.
  [/Violation for Subscription/i, missingRight],
  [/Permissions? ?Violation/i, { ...missingRight, isRefused: true }],
  [/Authoriz|Authenticat/i, badLogin],
  [
    /max(?:imum)?[ _]payload|message size exceeds maximum/i,
    { reason: 'full', advice: 'More claims wait for this key than one message can hold.', isRefused: true },
  ],
  [
    /maximum (?:bytes|messages)|insufficient (?:storage )?resources|resource limits|no space|maximum .* exceeded/i,
    {
      reason: 'full',
      advice: 'Give the bucket or the account more room; locks that are held live on until their ttl ends.',
      isRefused: true,
    },
  ],
  [
    /JetStream not enabled/i,
    {
      reason: 'configuration',
      advice: 'Start nats-server with -js, and enable JetStream for the account.',
      isRefused: true,
    },
  ],
  [/no ?responders|\b503\b|no quorum|not available|temporarily unavailable/i, failover],
  [/Timeout/i, timedOut],
]

function explain(error: unknown): NatsExplanation {
  if (error instanceof CallTimedOut) return timedOut
  if (error instanceof NoJetStream) return { reason: 'network', advice: 'Is something else listening there?' }
  const { name, code, cause } = (error ?? {}) as { name?: unknown; code?: unknown; cause?: { name?: unknown } }
  const text = `${String(name)} ${String(code)} ${messageOf(error)} ${String(cause?.name)}`
  const known = byText.find(([pattern]) => pattern.test(text))?.[1]
  if (known !== undefined) return known
  return error instanceof JetStreamRefusal ? refusedBy('nats') : explanations.network
}
