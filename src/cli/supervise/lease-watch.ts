import { formatDuration } from '../../core/time/duration.ts'
import type { Environment, Timer } from '../../core/time/environment.ts'
import { trustedUntil } from '../../core/time/deadline.ts'
import type { Lease } from '../../index.ts'

/** The part of a lease that the watch reads. */
export interface WatchedLease {
  readonly held: boolean
  readonly remainingMs: number
}

/** The dependencies of a {@link LeaseWatch}. */
export interface LeaseWatchSetup extends StopTerms {
  readonly lease: WatchedLease
  readonly environment: Pick<Environment, 'now' | 'timer'>
  readonly signal: (name: 'SIGTERM' | 'SIGKILL') => void
  readonly say: (message: string) => void
  /** Why the lease is no longer extended although no renewal failed, if so. */
  readonly whyNoLonger?: () => string | undefined
}

/** The clock is read at least this often: timers stop while the machine sleeps. */
const checkEveryMs = 1000

/**
 * Stops a command before its lease expires. `check` compares the stop plan with the clock: call it whenever the lease
 * changed. It also runs by its own timer.
 */
export class LeaseWatch implements Disposable {
  /** Why the command was told to stop, once it was. */
  stoppedBecause: string | undefined
  /** Whether SIGKILL was sent. */
  killed = false
  readonly #setup: LeaseWatchSetup
  #mustLeave: string | undefined
  /** The last known end of the lease. Losing the lease does not move it. */
  #reportedEndAt: number
  #terminated = false
  #killAt = Infinity
  #timer: Timer | undefined
  #over = false

  constructor(setup: LeaseWatchSetup) {
    this.#setup = setup
    this.#reportedEndAt = setup.environment.now() + setup.lease.remainingMs
    this.check()
  }

  /** Stops the command now: the lease will not be extended, or is lost. */
  leave(reason: string): void {
    this.#mustLeave ??= reason
    this.check()
  }

  /** Compares the stop plan with the clock, and signals the command if it is due. */
  check(): void {
    if (this.#over || this.killed) return
    const { lease, environment } = this.#setup
    const now = environment.now()
    // Reading `held` may detect the loss of the lease, which calls `leave` and so re-enters this method.
    const isHeld = lease.held
    if (this.killed) return
    if (isHeld) this.#reportedEndAt = now + lease.remainingMs
    const remainingMs = Math.max(0, this.#reportedEndAt - now)
    const plan = stopPlan(remainingMs, this.#setup, !isHeld || this.#mustLeave !== undefined)
    this.#carryOut(plan, now, remainingMs)
    this.#timer?.cancel()
    if (this.killed) return
    const dueInMs = this.#terminated ? this.#killAt - now : plan.terminateInMs
    this.#timer = environment.timer(Math.min(checkEveryMs, dueInMs), () => this.check())
    this.#timer.keepAlive(true)
  }

  [Symbol.dispose](): void {
    this.#over = true
    this.#timer?.cancel()
  }

  #carryOut(plan: StopPlan, now: number, remainingMs: number): void {
    if (!this.#terminated && plan.terminateInMs > 0) return
    const { signal, say } = this.#setup
    // After SIGTERM the time until SIGKILL only shrinks, even if the lease recovers.
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
  /** When to send SIGTERM. */
  readonly terminateInMs: number
  /** When to send SIGKILL. If equal to `terminateInMs`, SIGTERM is skipped. */
  readonly killInMs: number
}

/** The times that a stop plan is made from. */
export interface StopTerms {
  readonly ttlMs: number
  /** How long the command may take to end after SIGTERM. */
  readonly killAfterMs: number
}

/** Safety margin before the lease expires: timers fire late, and finding the processes of a command takes time. */
const marginMaxMs = 1000
const marginShare = 0.1
/** Just below the third of the ttl at which the client reports jeopardy. */
const terminateShareMax = 0.3

/**
 * Plans the stop of a command so that it has ended before its lease expires in `remainingMs`. SIGTERM comes `killAfterMs`
 * before SIGKILL, but not before the lease is in jeopardy: until then renewals are merely late. With `mustLeave`, SIGTERM
 * comes at once, and SIGKILL no later than the lease would have expired.
 */
export function stopPlan(remainingMs: number, terms: StopTerms, mustLeave = false): StopPlan {
  const { ttlMs, killAfterMs } = terms
  const marginMs = Math.min(marginMaxMs, ttlMs * marginShare)
  const killInMs = Math.max(0, remainingMs - marginMs)
  if (mustLeave) return { terminateInMs: 0, killInMs: Math.min(killAfterMs, killInMs) }
  const terminateAtMs = Math.min(killAfterMs + marginMs, ttlMs * terminateShareMax)
  return { terminateInMs: Math.max(0, remainingMs - terminateAtMs), killInMs }
}

/** How long a lease has been held, and how long it lasts. */
type Times = Pick<Lease, 'heldMs' | 'remainingMs'>

/** The share of a lease that a round trip to the store may take. */
const wayShare = 1 / 20

/** Whether the lease is ending because of its longest hold, and not because renewals fail. */
export function isLongestHold({ heldMs, remainingMs }: Times, ttlMs: number, maxHoldMs: number | undefined): boolean {
  if (maxHoldMs === undefined) return false
  const lastMs = Math.min(ttlMs, maxHoldMs)
  return heldMs + remainingMs >= trustedUntil(maxHoldMs - lastMs, lastMs) - lastMs * wayShare
}
