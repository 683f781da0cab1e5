import { formatDuration } from '../../core/time/duration.ts'
import type { Environment, Timer } from '../../core/time/environment.ts'
import { trustedUntil } from '../../core/time/deadline.ts'
import type { Lease } from '../../index.ts'

/** What the watch needs to know of a lease. */
export interface WatchedLease {
  readonly held: boolean
  readonly remainingMs: number
}

export interface LeaseWatchSetup extends StopTerms {
  readonly lease: WatchedLease
  readonly environment: Pick<Environment, 'now' | 'timer'>
  readonly signal: (name: 'SIGTERM' | 'SIGKILL') => void
  readonly say: (message: string) => void
  /** Why the lease is not renewed any further although nothing has failed, if that is so. */
  readonly whyNoLonger?: () => string | undefined
}

/** The clock is read at least this often: timers stand still while a machine sleeps. */
const lookEveryMs = 1000

/**
 * Stops a command before its lease can end. `look` compares the plan with the clock; call it whenever something happened
 * to the lease. It calls itself when something is due.
 */
export class LeaseWatch implements Disposable {
  /** Why the command was told to stop, once it was. */
  stoppedBecause: string | undefined
  /** Whether it was ended by force. */
  killed = false
  readonly #setup: LeaseWatchSetup
  #mustLeave: string | undefined
  /** The end of the lease as it was last told. A lease that is taken away earlier gets no later one. */
  #reportedEndAt: number
  #terminated = false
  #killAt = Infinity
  #timer: Timer | undefined
  #over = false

  constructor(setup: LeaseWatchSetup) {
    this.#setup = setup
    this.#reportedEndAt = setup.environment.now() + setup.lease.remainingMs
    this.look()
  }

  /** The lease will not be extended, or is gone. */
  leave(reason: string): void {
    this.#mustLeave ??= reason
    this.look()
  }

  look(): void {
    if (this.#over || this.killed) return
    const { lease, environment } = this.#setup
    const now = environment.now()
    // Looking may bring out that the lease is lost, and that comes back here as `leave`.
    const isHeld = lease.held
    if (this.killed) return
    if (isHeld) this.#reportedEndAt = now + lease.remainingMs
    const remainingMs = Math.max(0, this.#reportedEndAt - now)
    const plan = stopPlan(remainingMs, this.#setup, !isHeld || this.#mustLeave !== undefined)
    this.#carryOut(plan, now, remainingMs)
    this.#timer?.cancel()
    if (this.killed) return
    const dueInMs = this.#terminated ? this.#killAt - now : plan.terminateInMs
    this.#timer = environment.timer(Math.min(lookEveryMs, dueInMs), () => this.look())
    this.#timer.keepAlive(true)
  }

  [Symbol.dispose](): void {
    this.#over = true
    this.#timer?.cancel()
  }

  #carryOut(plan: StopPlan, now: number, remainingMs: number): void {
    if (!this.#terminated && plan.terminateInMs > 0) return
    const { signal, say } = this.#setup
    // Once told to end, a command has the time it was given then, or less; a lease that recovers changes nothing.
    this.#killAt = Math.min(this.#killAt, now + plan.killInMs)
    this.stoppedBecause ??= this.#mustLeave ?? this.#setup.whyNoLonger?.() ?? whyEnded(remainingMs)
    const reason = this.stoppedBecause
    if (now >= this.#killAt) {
      this.killed = true
      say(this.#terminated ? 'the command is still running: killing it' : `killing the command (${reason})`)
      signal('SIGKILL')
    } else if (!this.#terminated) {
      this.#terminated = true
      say(`stopping the command (${reason}): it has ${formatDuration(plan.killInMs)} to end`)
      signal('SIGTERM')
    }
  }
}

function whyEnded(remainingMs: number): string {
  return remainingMs > 0 ? 'lease not renewed' : 'lease expired'
}

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

/** What is left of a lease, and since when it is held. */
type Times = Pick<Lease, 'heldMs' | 'remainingMs'>

/** How much of a lease the way to the store and back may take. */
const wayShare = 1 / 20

/** Whether a lease ends when it does because it may be held for no longer, and not because renewals fail. */
export function isLongestHold({ heldMs, remainingMs }: Times, ttlMs: number, maxHoldMs: number | undefined): boolean {
  if (maxHoldMs === undefined) return false
  const lastMs = Math.min(ttlMs, maxHoldMs)
  return heldMs + remainingMs >= trustedUntil(maxHoldMs - lastMs, lastMs) - lastMs * wayShare
}
