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
  [/^(BUSY)/, 'busy', 'Another script keeps Redis busy; try again.'],
  [/^(CLUSTERDOWN|TRYAGAIN|MOVED|ASK|CROSSSLOT)/, 'cluster', 'The cluster is being rearranged; try again.'],
  [/LEASEHOLD fence/, 'fence', "A fence has grown beyond 2^53. Check Redis' clock."],
]

/** The error a user sees for whatever went wrong: what happened, and what to do. */
export function faultOf(error: unknown): LeaseholdError {
  if (error instanceof LeaseholdError) return error
  const message = messageOf(error)
  for (const [begins, reason, advice] of replies) {
    if (begins.test(message)) return unavailable(`${message}. ${advice}`, reason, error)
  }
  if (isScriptFault(message)) return unavailable(`${message}. This may be a fault of Leasehold.`, 'script', error)
  return unavailable(`Redis cannot be reached: ${message}.`, 'network', error)
}

/** The error of a reply that is overdue: whether the request was carried out is not known. */
export function overdue(milliseconds: number): LeaseholdError {
  return unavailable(`Redis has not answered for ${milliseconds} ms.`, 'network', undefined)
}

/** Whether the client library says that it has sent nothing at all. */
export function isUnsent(error: unknown): boolean {
  if (error instanceof LeaseholdError) return error.code === 'CLOSED'
  const { name, message } = error instanceof Error ? error : new Error(String(error))
  return name === 'ClientClosedError' || name === 'ClientOfflineError' || message.startsWith("Stream isn't writeable")
}

function isScriptFault(message: string): boolean {
  return message.startsWith('ERR') || message.startsWith('WRONGTYPE')
}

function unavailable(message: string, reason: string, cause: unknown): LeaseholdError {
  return new LeaseholdError('UNAVAILABLE', message, { reason, ...(cause !== undefined && { cause }) })
}
