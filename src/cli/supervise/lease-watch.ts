import { formatDuration } from '../../core/time/duration.ts'
import type { Environment, Timer } from '../../core/time/environment.ts'
import { stopPlan, type StopPlan, type StopTerms } from './stop-plan.ts'

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
