import { LeaseholdError, messageOf } from '../../core/errors.ts'
import { CallTimedOut, withTimeout } from '../kit/call-timeout.ts'
import type { Explanation } from '../kit/explanation.ts'

/** What the errors of Redis mean, by how their texts begin. */
const explanations: readonly (readonly [text: RegExp, explanation: Explanation])[] = [
  [
    /^(WRONGPASS|NOAUTH|NOPERM|ERR invalid password|ERR AUTH|ERR Client sent AUTH)/i,
    { reason: 'auth', advice: 'Check user, password and ACL.' },
  ],
  [
    /^(READONLY)/,
    { reason: 'read-only', advice: 'This is a replica. Connect to the primary, or through Sentinel or Cluster.' },
  ],
  [
    /^(OOM|MISCONF)/,
    {
      reason: 'full',
      advice: 'Redis cannot write. Give it memory or disk; held locks live on until their ttl ends.',
    },
  ],
  [/^(LOADING|MASTERDOWN)/, { reason: 'loading', advice: 'Redis is reading its data; try again.' }],
  [/^(NOREPLICAS)/, { reason: 'replicas', advice: 'Redis wants more replicas before it writes; try again.' }],
  [/^(BUSY)/, { reason: 'busy', advice: 'Another script keeps Redis busy; try again.' }],
  [
    /^(CLUSTERDOWN|MOVED|ASK|CROSSSLOT|Too many Cluster redir)|TRYAGAIN|LEASEHOLD half moved|access a non local key/,
    { reason: 'cluster', advice: 'The cluster is being rearranged; try again.' },
  ],
  [/^(ERR )?syntax error/, { reason: 'configuration', advice: 'Use Redis 6.2 or newer, or Valkey.' }],
  [
    /^WRONGTYPE/,
    {
      reason: 'foreign',
      advice: 'Another program has written to a name of this store. Delete it, or use a prefix of your own.',
    },
  ],
  [/LEASEHOLD fence/, { reason: 'fence', advice: "A fence has grown beyond 2^53. Check Redis' clock." }],
]

/** The error a user sees: what happened, and what to do. An error of Leasehold itself stays as it is. */
export function redisError(error: unknown): LeaseholdError {
  if (error instanceof LeaseholdError) return error
  if (isTimedOut(error)) return new LeaseholdError('UNAVAILABLE', error.message, { reason: 'network' })
  const message = replyOf(error).replace(/\.$/, '')
  const [, explanation] = explanations.find(([text]) => text.test(message)) ?? []
  if (explanation !== undefined) return unavailable(`${message}. ${explanation.advice}`, explanation.reason, error)
  if (isScriptFault(messageOf(error))) {
    return unavailable(`${message}. This may be a fault of Leasehold.`, 'script', error)
  }
  return unavailable(`Redis cannot be reached: ${message}.`, 'network', error)
}

function unavailable(message: string, reason: string, cause: unknown): LeaseholdError {
  return new LeaseholdError('UNAVAILABLE', message, { reason, cause })
}

function isScriptFault(message: string): boolean {
  return message.startsWith('ERR') || message.includes('user_script')
}

/** Redis 6.2 begins the error of a script with the place in the script. */
const positionInScript = /^(?:ERR Error running script \(call to \w+\): )?(?:@?user_script: ?\d+: )*-?/

/** The error text of Redis, without the place in a script. */
function replyOf(error: unknown): string {
  return messageOf(sourceOf(error)).replace(positionInScript, '')
}

/** ioredis' error of a whole cluster says only that connecting failed; the last node's error is a property of it. */
function sourceOf(error: unknown): unknown {
  return (error as { lastNodeError?: unknown } | undefined)?.lastNodeError ?? error
}

/** The error of a call without a reply in time: whether Redis carried out the call is not known. */
export function callTimedOut(withinMs: number): CallTimedOut {
  return new CallTimedOut(timedOutMessage(withinMs))
}

function timedOutMessage(withinMs: number): string {
  return `Redis has not answered for ${Math.round(withinMs)} ms.`
}

/** Settles as `reply` does, or rejects with {@link callTimedOut}. */
export function replyWithin<Reply>(reply: Promise<Reply>, withinMs: number): Promise<Reply> {
  return withTimeout(reply, withinMs, timedOutMessage)
}

export function isTimedOut(error: unknown): error is CallTimedOut {
  return error instanceof CallTimedOut
}

/** The error of a call while there is no connection. */
export function notSentError(): Error {
  return new NotSent('There is no connection')
}

class NotSent extends Error {}

/**
 * Whether the call was certainly not sent. The client of a cluster never says so: its error may be of its second
 * attempt, after it sent the first.
 */
export function wasNotSent(error: unknown): boolean {
  if (error instanceof LeaseholdError) return error.code === 'CLOSED'
  if (error instanceof NotSent) return true
  const { name, message } = error instanceof Error ? error : new Error(String(error))
  return name === 'ClientClosedError' || name === 'ClientOfflineError' || message.startsWith("Stream isn't writeable")
}

/** Whether the server does not know the script, and so has carried out nothing. */
export function isUnknownScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT')
}

/** Whether the server has become a replica: after a failover its address may lead to the new primary. */
export function isReadOnly(error: unknown): boolean {
  const reply = replyOf(error instanceof LeaseholdError ? error.cause : error)
  return reply.startsWith('READONLY') || reply.startsWith('MASTERDOWN')
}

/**
 * Whether a slot is being moved, so that the keys of one call lie on two nodes of the cluster: a call for each key may
 * succeed. A client library that was redirected to and fro gives up with an error of its own.
 */
export function isSlotMigrating(error: unknown): boolean {
  return /TRYAGAIN|^Too many Cluster redir/.test(replyOf(error))
}
