import { TimerQueue, type TimerTask } from '../../core/time/timer-queue.ts'
import { Batcher, type Requester } from '../../core/client/batcher.ts'
import type { LockDriver, Request, ClaimStatus } from '../../core/contract/driver.ts'
import type { Environment } from '../../core/time/environment.ts'
import { nextRenewalAt, RenewalSchedules, type RenewalSchedule } from '../../core/client/renewal-schedule.ts'
import { isClaimStatus } from '../../core/contract/status-check.ts'
import { trustedUntil } from '../../core/time/deadline.ts'
import type { RenewedClaim } from '../../core/client/claim-runtime.ts'

/** The status of a claim, by the answer to a renewal or by a notification. */
export interface StatusReport {
  readonly id: string
  readonly key: string
  /** When the renewal was sent, on the clock both threads share, and for how long. Absent: a notification. */
  readonly sent?: { readonly at: number; readonly ttlMs: number }
  /**
   * Of a renewal that succeeded: since when the claim has been held without a break, as far as this thread knows. Each
   * renewal since then was answered before the lease of the renewal before expired.
   */
  readonly since?: number
  readonly status: ClaimStatus
}

/** The claim is no longer renewed for this ttl, and every renewal sent for it has been answered or reported. */
export interface SettledReport {
  readonly id: string
  readonly settledMs: number
}

/** What a heartbeat thread reports to its client. */
export type HeartbeatReport = StatusReport | SettledReport

/** Renews the claims of a client over a driver, a batcher and a timer queue of its own, and reports to the client. */
export class Heartbeats {
  readonly #driver: LockDriver
  readonly #environment: Environment
  readonly #report: (report: HeartbeatReport) => void
  readonly #batcher: Batcher
  readonly #timers: TimerQueue
  readonly #schedules: RenewalSchedules
  readonly #renewals = new Map<string, ThreadRenewal>()
  readonly #listening: Disposable | undefined

  constructor(driver: LockDriver, environment: Environment, report: (report: HeartbeatReport) => void) {
    this.#driver = driver
    this.#environment = environment
    this.#report = report
    this.#batcher = new Batcher(driver, environment)
    this.#timers = new TimerQueue(environment)
    this.#schedules = new RenewalSchedules(() => environment.random())
    this.#listening = driver.listen?.((key, id, notification) => {
      if (this.#renewals.has(id) && isClaimStatus(notification)) report({ id, key, status: notification })
    })
  }

  /** Renews this claim from now on. Replaces an earlier watch of the same claim. */
  watch(claim: RenewedClaim): void {
    this.unwatch(claim.id)
    const { heartbeatMs, sentAt } = claim
    const schedule = this.#schedules.choose(this.#renewals.size)
    const renewal = new ThreadRenewal(claim, schedule, (answered) => this.#renew(answered), this.#answered)
    this.#renewals.set(claim.id, renewal)
    this.#timers.set(renewal, nextRenewalAt(heartbeatMs, schedule, sentAt, this.#environment.now()))
  }

  unwatch(id: string): void {
    const renewal = this.#renewals.get(id)
    if (renewal === undefined) return
    this.#timers.set(renewal, Infinity)
    this.#renewals.delete(id)
    if (!renewal.underWay) this.#report({ id, settledMs: renewal.claim.ttlMs })
  }

  /** Resolves when every renewal has been answered and the driver is closed. */
  async close(): Promise<void> {
    this.#timers.clear()
    this.#renewals.clear()
    await this.#batcher.settled()
    this.#listening?.[Symbol.dispose]()
    await this.#driver.close()
  }

  /** Closes the connection at once: the process exits. */
  async abandon(): Promise<void> {
    this.#timers.clear()
    this.#renewals.clear()
    await this.#driver.close()
  }

  #renew(renewal: ThreadRenewal): void {
    const { key, id, ttlMs } = renewal.claim
    this.#batcher.submit({ op: 'renew', key, id, ttlMs }, renewal)
  }

  readonly #answered = (renewal: ThreadRenewal, status: ClaimStatus, sentAt: number, at: number): void => {
    const { id, key, ttlMs, heartbeatMs } = renewal.claim
    const isReplaced = this.#renewals.get(id) !== renewal
    // A renewal that was not answered may be carried out yet, even after another thread has taken over.
    if (!isReplaced || status.state === 'unknown') {
      const since = status.state === 'held' ? { since: renewal.heldSince(status.ttlMs, sentAt, at) } : {}
      this.#report({ id, key, sent: { at: sentAt, ttlMs }, status, ...since })
    }
    if (isReplaced) return this.#report({ id, settledMs: ttlMs })
    if (status.state === 'absent') this.#renewals.delete(id)
    else if (status.state === 'held')
      this.#timers.set(renewal, nextRenewalAt(heartbeatMs, renewal.schedule, sentAt, at))
    else this.#timers.set(renewal, at + heartbeatMs / 10)
  }
}

/** The renewals of one claim. */
class ThreadRenewal implements TimerTask, Requester {
  timerSlot = -1
  readonly claim: RenewedClaim
  /** A renewal was submitted and has not been answered. */
  underWay = false
  readonly schedule: RenewalSchedule
  #since: number
  #until: number
  readonly #due: (renewal: ThreadRenewal) => void
  readonly #answered: (renewal: ThreadRenewal, status: ClaimStatus, sentAt: number, at: number) => void

  constructor(
    claim: RenewedClaim,
    schedule: RenewalSchedule,
    due: (renewal: ThreadRenewal) => void,
    answered: (renewal: ThreadRenewal, status: ClaimStatus, sentAt: number, at: number) => void,
  ) {
    this.claim = claim
    this.schedule = schedule
    this.#since = claim.sentAt
    this.#until = trustedUntil(claim.sentAt, claim.ttlMs)
    this.#due = due
    this.#answered = answered
  }

  /** Notes a renewal that succeeded. If it was answered after the lease before had expired, the hold begins anew. */
  heldSince(ttlMs: number, sentAt: number, at: number): number {
    if (at >= this.#until) this.#since = at
    this.#until = trustedUntil(sentAt, ttlMs)
    return this.#since
  }

  wake(): void {
    this.underWay = true
    this.#due(this)
  }

  answered(_request: Request, status: ClaimStatus, sentAt: number, at: number): void {
    this.underWay = false
    this.#answered(this, status, sentAt, at)
  }
}

/**
 * Drops outdated reports after a long block: of the answers for one claim it keeps the newest. It keeps every notification,
 * and every renewal that was not answered, which may be carried out yet.
 */
export function newestReports(reports: readonly HeartbeatReport[]): readonly HeartbeatReport[] {
  const newest = new Map<string, HeartbeatReport>()
  for (const report of reports) if (isAnswer(report)) newest.set(report.id, report)
  return reports.filter((report) => !isAnswer(report) || newest.get(report.id) === report)
}

function isAnswer(report: HeartbeatReport): boolean {
  return !('settledMs' in report) && report.sent !== undefined && report.status.state !== 'unknown'
}
