import { TimerQueue } from '../../core/time/timer-queue.ts'
import { Batcher } from '../../core/client/batcher.ts'
import { settledWithin } from '../../core/time/bounded.ts'
import type { RenewalPolicy } from '../../core/client/claim-step.ts'
import { adaptivePolling } from '../../core/time/backoff.ts'
import type { AcquireTerms } from '../options.ts'
import type { LockDriver, Runner } from '../../core/contract/driver.ts'
import type { Environment } from '../../core/time/environment.ts'
import { clientClosed } from '../../core/errors.ts'
import { Events, type EventName, type LockEvents } from './events.ts'
import { RenewalSchedules, type RenewalSchedule } from '../../core/client/renewal-schedule.ts'
import { IdTable } from '../../core/client/id-table.ts'
import { SlotSet, type SlotMember } from '../../core/client/slot-set.ts'
import { describeScope, type Scope } from '../../core/contract/scope.ts'
import { checkedNotification } from '../../core/contract/status-check.ts'
import { runtimeProcess } from '../../core/machine/runtime.ts'
import type { HeldName } from '../../core/machine/runner-name.ts'
import type { ClaimRuntime, ClientRuntime, HeartbeatThread } from '../../core/client/claim-runtime.ts'
import type { HeartbeatReport } from '../heartbeat/heartbeats.ts'
import { LeaseHandle } from '../lease/lease-handle.ts'
import type { LockOrder } from '../owners/lock-order.ts'
import { quietLogger, type Logger } from './logger.ts'
import type { DeadlockWatch } from '../owners/deadlock-watch.ts'
import { OwnerLeases } from '../owners/owner-leases.ts'
import type { Acquisition } from './acquisition.ts'
import { ClientCounters } from './counters.ts'
import { Refusals } from './refusals.ts'

/** How long `close` waits for the store's last answers. */
const closeMs = 5000

/** Starts a heartbeat thread, which reports to the given function. */
export type StartThread = (report: (report: HeartbeatReport) => void) => Promise<HeartbeatThread>

/** Warnings of stores that were written in this process. */
const saidOnce = new Set<string>()

/** What one `connect` shares: the driver, the claims and leases under way, counters, events and the logger. */
export class Client implements ClientRuntime {
  readonly driver: LockDriver
  readonly environment: Environment
  readonly runner: Runner
  readonly namespace: string
  readonly allowForce: boolean
  readonly batcher: Batcher
  readonly timers: TimerQueue
  readonly claimRuntimes = new IdTable<ClaimRuntime>()
  thread: HeartbeatThread | undefined
  /** Acquisitions without an outcome yet. */
  readonly acquisitions = new SlotSet<Acquisition>()
  readonly owners = new OwnerLeases()
  /** Reads who is in the way of acquisitions that missed. */
  readonly refusals: Refusals
  /** Elections in office and watches of elections: they end with the client. */
  readonly elections = new SlotSet<SlotMember & { close(): void }>()
  /** Work loops that run: `close` waits for their handlers, within their bounds. */
  readonly works = new SlotSet<SlotMember & { stop(): Promise<void> }>()
  /** The ids of claims that are being resumed from other processes. */
  readonly resuming = new Set<string>()
  /** By claim id, the shortest ttl of its unanswered resumes. Few: each is a store out of reach. */
  readonly unansweredResumes = new Map<string, number>()
  /** Whether leases remember where their owner acquired them. */
  tracesOwners = false
  /** Absent: switched off, or the store keeps no queue to read. */
  deadlocks: DeadlockWatch | undefined
  /** Absent by default. */
  order: LockOrder | undefined
  readonly counters = new ClientCounters()
  readonly events: Events
  readonly #schedules: RenewalSchedules
  /** The last renewal policy of each schedule. */
  readonly #policies = new Map<RenewalSchedule | undefined, RenewalPolicy>()
  readonly #logger: Logger | undefined
  readonly #runnerName: HeldName | undefined
  readonly #listening: Disposable | undefined
  #closing: Promise<void> | undefined
  #closed = false

  constructor(setup: {
    readonly driver: LockDriver
    readonly environment: Environment
    readonly runner: Runner
    readonly namespace: string
    readonly allowForce: boolean
    readonly logger: Logger | undefined
    readonly runnerName: HeldName | undefined
  }) {
    const { driver, environment } = setup
    this.driver = driver
    this.refusals = new Refusals(driver, () => environment.now())
    this.environment = environment
    this.runner = setup.runner
    this.namespace = setup.namespace
    this.allowForce = setup.allowForce
    this.#logger = setup.logger && quietLogger(setup.logger)
    this.#runnerName = setup.runnerName
    this.events = new Events((message) => this.log('warn', message))
    this.batcher = new Batcher(driver, environment)
    this.timers = new TimerQueue(environment)
    this.#schedules = new RenewalSchedules(() => environment.random())
    this.#listening = driver.listen?.(
      (_key, id, notification) => this.#onNotification(id, notification),
      () => this.#onGap(),
    )
  }

  /** Notifications come from outside: a bad one must neither throw at the driver nor harm a claim. */
  #onNotification(id: unknown, notification: unknown): void {
    const claimRuntime = typeof id === 'string' ? this.claimRuntimes.get(id) : undefined
    if (claimRuntime === undefined) return
    const checked = checkedNotification(notification, this.driver.supports)
    // A queued claim is granted after claims that need not wait, though its notification may overtake the answers to both.
    const isGrant = checked !== 'poll' && checked.state === 'held'
    if (isGrant && claimRuntime.state.phase === 'asking')
      this.environment.defer(() => claimRuntime.onNotification(checked))
    else claimRuntime.onNotification(checked)
  }

  /** Polls every claim that waits: its grant may have been among the lost notifications. A holder learns of losses by renewing. */
  #onGap(): void {
    for (const acquisition of this.acquisitions) acquisition.poll()
  }

  /** Has another thread renew the claims of this client from now on. */
  async startThread(start: StartThread): Promise<void> {
    this.thread = await start((report) => {
      const claimRuntime = this.claimRuntimes.get(report.id)
      if ('settledMs' in report) return claimRuntime?.settledElsewhere(report.settledMs)
      const { sent, status, since } = report
      if (sent === undefined) claimRuntime?.onNotification(checkedNotification(status, this.driver.supports))
      else claimRuntime?.renewedElsewhere(status, sent.at, sent.ttlMs, since)
    })
  }

  /**
   * How often this thread renews a claim. With a heartbeat thread, this thread only steps in when that one has failed: each
   * renewal there puts the next renewal here off.
   */
  ownHeartbeatMs(heartbeatMs: number, ttlMs: number): number {
    if (this.thread === undefined || heartbeatMs === Infinity) return heartbeatMs
    return Math.max(heartbeatMs, ttlMs / 2)
  }

  /** How this thread renews one more claim. Claims that are renewed alike share one policy: a program may hold very many. */
  renewalPolicy({ heartbeatMs, ttlMs, holdUntil }: AcquireTerms): RenewalPolicy {
    const { supports } = this.driver
    const ownMs = this.ownHeartbeatMs(heartbeatMs, ttlMs)
    const schedule = this.#renewalSchedule()
    const last = this.#policies.get(schedule)
    if (last?.heartbeatMs === ownMs && holdUntil === undefined) return last
    const polling = supports.push ? undefined : (supports.pollingDefault ?? adaptivePolling)
    const hold = holdUntil === undefined ? undefined : { until: holdUntil, ttlMinMs: supports.ttlMinMs }
    const policy: RenewalPolicy = { heartbeatMs: ownMs, polling, schedule, hold }
    if (hold === undefined) this.#policies.set(schedule, policy)
    return policy
  }

  /** When this thread renews one more claim. With a heartbeat thread never early: that thread is to be first. */
  #renewalSchedule(): RenewalSchedule | undefined {
    // A heartbeat thread renews by a schedule of its own. Where calls are expensive, none is made early to travel with others.
    if (this.thread !== undefined || this.driver.supports.pollingDefault !== undefined) return undefined
    return this.#schedules.choose(this.claimRuntimes.size)
  }

  /** The leases that are held. */
  get leases(): LeaseHandle[] {
    const observers = this.claimRuntimes
      .members()
      .map(({ state, observer }) => (state.phase === 'held' ? observer : undefined))
    return observers.filter((observer) => observer instanceof LeaseHandle)
  }

  get closed(): boolean {
    return this.#closed
  }

  refuseIfClosed(): void {
    if (this.closed) throw clientClosed()
  }

  /** Before `closed` is true, `close` waits for work loops. */
  refuseIfClosing(): void {
    if (this.#closing !== undefined) throw clientClosed()
  }

  /** Counts, logs and emits what happened to a lease. */
  emit<Name extends EventName>(
    name: Name,
    lease: LeaseHandle,
    details: Omit<LockEvents[Name], 'scope' | 'key' | 'fence'>,
  ): void {
    const { key, fence } = lease
    this.counters.count(name, key, details)
    if (this.hasListener(name))
      this.#announce(name, lease.scope, { key, fence, ...details } as Omit<LockEvents[Name], 'scope'>)
  }

  /** `emit` for the commonest event: without a listener, no event object is made. */
  emitReleased(lease: LeaseHandle, heldMs: number): void {
    if (this.hasListener('released')) this.emit('released', lease, { heldMs })
    else this.counters.countRelease(lease.key, heldMs)
  }

  /** Counts, logs and emits what happened to a lock. */
  emitForLock<Name extends EventName>(name: Name, scope: Scope, details: Omit<LockEvents[Name], 'scope'>): void {
    this.counters.count(name, details.key, details as Omit<LockEvents[Name], 'scope' | 'key' | 'fence'>)
    if (this.hasListener(name)) this.#announce(name, scope, details)
  }

  /** Whether a logger or a listener would hear the event. */
  hasListener(name: EventName): boolean {
    return this.#logger !== undefined || this.events.wants(name)
  }

  #announce<Name extends EventName>(name: Name, scope: Scope, details: Omit<LockEvents[Name], 'scope'>): void {
    const event = { scope: describeScope(scope), ...details } as LockEvents[Name]
    this.log(logLevels[name], `lock ${name}: ${event.scope}`, event)
    this.events.emit(name, event)
  }

  /** Warns developers of a mistake in their program: by the logger if there is one, else by the process. */
  warn(message: string): void {
    if (this.#logger !== undefined) this.log('warn', message)
    else if (runtimeProcess?.emitWarning === undefined) console.warn(`LeaseholdWarning: ${message}`)
    else process.emitWarning(message, 'LeaseholdWarning')
  }

  /** Warns once in this process, however many clients would repeat it. A logger gets every warning. */
  warnOnce(message: string): void {
    if (this.#logger === undefined && saidOnce.has(message)) return
    if (this.#logger === undefined) saidOnce.add(message)
    this.warn(message)
  }

  log(level: keyof Logger, message: string, details?: object): void {
    this.#logger?.[level](message, details)
  }

  /** Ends every acquisition, releases every lease, and closes the driver. Repeatable. */
  close(): Promise<void> {
    if (this.#closing !== undefined) return this.#closing
    // Closed before any listener is called: a listener may ask for another lock, or close the client once more.
    let settle: (closing: Promise<void>) => void = () => {}
    this.#closing = new Promise((resolve) => {
      settle = resolve
    })
    if (this.works.size === 0) {
      this.#closed = true
      settle(this.#close())
    } else settle(this.#closeAfterWork())
    return this.#closing
  }

  /** Open while handlers end, so that they can complete their tasks. */
  async #closeAfterWork(): Promise<void> {
    await Promise.all([...this.works].map((work) => work.stop()))
    this.#closed = true
    await this.#close()
  }

  async #close(): Promise<void> {
    for (const acquisition of this.acquisitions) acquisition.close()
    for (const election of this.elections) election.close()
    // Detached claims are meant to outlive this process: stop following them, release nothing.
    for (const lease of this.leases) if (lease.terms.detached === true) lease.passOn('handed-off')
    const released = this.leases.map((lease) => lease.releaseAll())
    // A bounded wait: what the store has not answered by then ends by its ttl.
    const settled = Promise.all(released).then(() => this.batcher.settled())
    await settledWithin(this.environment, closeMs, settled)
    this.#listening?.[Symbol.dispose]()
    // Answers that arrive from now on start no timer and send no request.
    this.batcher.close()
    this.timers.close()
    this.claimRuntimes.clear()
    await this.thread?.close()
    await this.driver.close()
    this.#runnerName?.release()
  }
}

const logLevels: Readonly<Record<EventName, keyof Logger>> = {
  waiting: 'debug',
  contention: 'debug',
  acquired: 'info',
  takeover: 'warn',
  stale: 'warn',
  renewed: 'debug',
  'renewal-failed': 'warn',
  jeopardy: 'warn',
  leaving: 'warn',
  lost: 'warn',
  released: 'info',
  'passed-on': 'info',
  failed: 'info',
}
