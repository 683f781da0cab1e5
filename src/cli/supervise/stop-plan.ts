/** When to stop a command, counted from now. */
export interface StopPlan {
  /** Ask it to end: SIGTERM. */
  readonly terminateInMs: number
  /** End it: SIGKILL. The same as `terminateInMs`: do not ask first. */
  readonly killInMs: number
}

export interface StopTerms {
  readonly ttlMs: number
  /** How long the command may take to end after SIGTERM. */
  readonly killAfterMs: number
}

/** Kept free before the end of the lease: timers are late, and finding all that a command started takes time. */
const marginMaxMs = 1000
const marginShare = 0.1
/** A little after the client has warned that the lease is in jeopardy, with a third of it left. */
const terminateShareMax = 0.3

/**
 * A command must have ended before its lease can. It is asked to end `killAfterMs` before that, but never with more
 * than a third of the ttl left: until then renewals are merely late. `remainingMs` is what is left if nothing more is renewed. A
 * holder that has to leave is asked at once, and still gets no time beyond the end it was told.
 */
export function stopPlan(remainingMs: number, terms: StopTerms, mustLeave = false): StopPlan {
  const { ttlMs, killAfterMs } = terms
  const marginMs = Math.min(marginMaxMs, ttlMs * marginShare)
  const killInMs = Math.max(0, remainingMs - marginMs)
  if (mustLeave) return { terminateInMs: 0, killInMs: Math.min(killAfterMs, killInMs) }
  const terminateAtMs = Math.min(killAfterMs + marginMs, ttlMs * terminateShareMax)
  return { terminateInMs: Math.max(0, remainingMs - terminateAtMs), killInMs }
}
