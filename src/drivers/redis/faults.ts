import { inTime } from '../../core/time/bounded.ts'
import { LeaseholdError, messageOf } from '../../core/errors.ts'

/** How Redis begins the errors that are told apart here. */
const replies: readonly (readonly [begins: RegExp, reason: string, advice: string])[] = [
  [
    /^(WRONGPASS|NOAUTH|NOPERM|ERR invalid password|ERR AUTH|ERR Client sent AUTH)/i,
    'auth',
    'Check user, password and ACL.',
  ],
  [/^(READONLY)/, 'read-only', 'This is a replica. Connect to the primary, or through Sentinel or Cluster.'],
  [/^(OOM|MISCONF)/, 'full', 'Redis cannot write. Give it memory or disk; held locks live on until their ttl ends.'],
  [/^(LOADING|MASTERDOWN)/, 'loading', 'Redis is reading its data; try again.'],
  [/^(NOREPLICAS)/, 'replicas', 'Redis wants more replicas before it writes; try again.'],
  [/^(BUSY)/, 'busy', 'Another script keeps Redis busy; try again.'],
  [
    /^(CLUSTERDOWN|MOVED|ASK|CROSSSLOT|Too many Cluster redir)|TRYAGAIN|LEASEHOLD half moved|access a non local key/,
    'cluster',
    'The cluster is being rearranged; try again.',
  ],
  [/^(ERR )?syntax error/, 'configuration', 'Use Redis 6.2 or newer, or Valkey.'],
  [
    /^WRONGTYPE/,
    'foreign',
    'Another program has written to a name of this store. Delete it, or use a prefix of your own.',
  ],
  [/LEASEHOLD fence/, 'fence', "A fence has grown beyond 2^53. Check Redis' clock."],
]

/** The error a user sees for whatever went wrong: what happened, and what to do. */
export function faultOf(error: unknown): LeaseholdError {
  if (error instanceof LeaseholdError) return error
  const message = replyOf(error).replace(/\.$/, '')
  for (const [begins, reason, advice] of replies) {
    if (begins.test(message)) return unavailable(`${message}. ${advice}`, reason, error)
  }
  if (isScriptFault(messageOf(error)))
    return unavailable(`${message}. This may be a fault of Leasehold.`, 'script', error)
  return unavailable(`Redis cannot be reached: ${message}.`, 'network', error)
}

/** Redis 6.2 puts before an error in a script where in the script that was. */
const positionInScript = /^(?:ERR Error running script \(call to \w+\): )?(?:@?user_script: ?\d+: )*-?/

/** What Redis said. */
function replyOf(error: unknown): string {
  return messageOf(sourceOf(error)).replace(positionInScript, '')
}

/** ioredis says of a cluster only that it failed, and beside that how its last node did. */
function sourceOf(error: unknown): unknown {
  return (error as { lastNodeError?: unknown } | undefined)?.lastNodeError ?? error
}

/**
 * Whether some keys of a call have moved to another node of the cluster, and others not yet: each alone may be found.
 * A client library that was sent to and fro gives up with an error of its own.
 */
export function isHalfMoved(error: unknown): boolean {
  return /TRYAGAIN|^Too many Cluster redir/.test(replyOf(error))
}

/** The error of a reply that is overdue: whether the request was carried out is not known. */
export function timedOut(milliseconds: number): LeaseholdError {
  return new TimedOut('UNAVAILABLE', `Redis has not answered for ${Math.round(milliseconds)} ms.`, {
    reason: 'network',
  })
}

class TimedOut extends LeaseholdError {}

/** Settles as `reply` does, or rejects as overdue. */
export function withTimeout<Reply>(reply: Promise<Reply>, withinMs: number): Promise<Reply> {
  return inTime(withinMs, reply, timedOut)
}

/** Whether the server does not know a script, and so has not carried out anything. */
export function isUnknownScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT')
}

/** Whether the server has become a replica: after a failover its address may lead to the new primary. */
export function isReadOnly(error: unknown): boolean {
  const reply = replyOf(error instanceof LeaseholdError ? error.cause : error)
  return reply.startsWith('READONLY') || reply.startsWith('MASTERDOWN')
}

export function isTimedOut(error: unknown): boolean {
  return error instanceof TimedOut
}

/** The error of a call while there is no connection. */
export function unsent(): Error {
  return new Unsent('There is no connection')
}

class Unsent extends Error {}

/**
 * Whether the client library says that it has sent nothing at all. Of a cluster it never does: what it says may be of
 * its second attempt.
 */
export function isUnsent(error: unknown): boolean {
  if (error instanceof LeaseholdError) return error.code === 'CLOSED'
  if (error instanceof Unsent) return true
  const { name, message } = error instanceof Error ? error : new Error(String(error))
  return name === 'ClientClosedError' || name === 'ClientOfflineError' || message.startsWith("Stream isn't writeable")
}

function isScriptFault(message: string): boolean {
  return message.startsWith('ERR') || message.includes('user_script')
}

function unavailable(message: string, reason: string, cause: unknown): LeaseholdError {
  return new LeaseholdError('UNAVAILABLE', message, { reason, cause })
}
