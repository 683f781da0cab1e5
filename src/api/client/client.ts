import { TimerQueue } from '../../core/time/timer-queue.ts'
import { Batcher } from '../../core/client/batcher.ts'
import { settledWithin } from '../../core/time/bounded.ts'
import type { LockDriver, Mode, Runner } from '../../core/contract/driver.ts'
import type { Environment } from '../../core/time/environment.ts'
import { clientClosed } from '../../core/errors.ts'
import { Events, type EventName, type LockEvents } from './events.ts'
import { IdTable } from '../../core/client/id-table.ts'
import { SlotSet } from '../../core/client/slot-set.ts'
import { describeScope, type Scope } from '../../core/contract/scope.ts'
import { checkedNotification } from '../../core/contract/status-check.ts'
import { runtimeProcess } from '../../core/machine/runtime.ts'
import type { HeldName } from '../../core/machine/runner-name.ts'
import type { HeartbeatThread, ClientRuntime } from '../../core/client/claim-runtime.ts'
import type { Report } from '../heartbeat/heartbeats.ts'
import type { LeaseHandle } from '../lease/lease-handle.ts'
import type { LockOrder } from '../owners/lock-order.ts'
import { quietLogger, type Logger } from './logger.ts'
import type { DeadlockWatch } from '../owners/deadlock-watch.ts'
import type { WaitOptions } from '../options.ts'
import { OwnerBook } from '../owners/owner-leases.ts'
import type { LeaseProof } from '../lease/proof.ts'
import { Counters } from './counters.ts'

/** How long `close` waits for the store's last answers. */
const closeMs = 5000

/** What becomes of a lease beyond being kept and let go. Set by whoever makes the client: these make leases themselves. */
export interface LeaseWays {
  convert(client: Client, lease: LeaseHandle, mode: Mode, options?: WaitOptions): Promise<LeaseHandle>
  handOff(client: Client, lease: LeaseHandle, ttlMs: number): Promise<LeaseProof>
}

/** Starts what renews from elsewhere, and has it report. */
export type StartThread = (report: (report: Report) => void) => Promise<HeartbeatThread>

/** Warnings of stores that this process has been told. */
const saidOnce = new Set<string>()

/** What one `connect` shares: the way to the store, the claims under way, and who is told about them. */
export class Client {
  readonly driver: LockDriver
  readonly environment: Environment
  readonly runner: Runner
  readonly namespace: string
  readonly allowForce: boolean
  readonly leases = new SlotSet<LeaseHandle>()
  readonly owners = new OwnerBook()
  /** The ids of claims that are being taken over from other processes. */
  readonly resuming = new Set<string>()
  /** The shortest ttl of the tries to take a claim over that were never answered, by its id. Few: each is a store out of reach. */
  readonly unansweredResumes = new Map<string, number>()
  readonly ways: LeaseWays
  /** Whether to remember where an owner acquired what it holds. */
  tracesOwners = false
  /** Absent: switched off, or the store keeps no queue to look at. */
  deadlocks: DeadlockWatch | undefined
  /** Absent unless asked for. */
  order: LockOrder | undefined
  readonly counters = new Counters()
  readonly events: Events
  readonly runtime: ClientRuntime & { thread: HeartbeatThread | undefined }
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
    readonly ways: LeaseWays
  }) {
    const { driver, environment } = setup
    this.driver = driver
    this.environment = environment
    this.runner = setup.runner
    this.namespace = setup.namespace
    this.allowForce = setup.allowForce
    this.ways = setup.ways
    this.#logger = setup.logger && quietLogger(setup.logger)
    this.#runnerName = setup.runnerName
    this.events = new Events((message) => this.log('warn', message))
    this.runtime = {
      environment,
      batcher: new Batcher(driver, environment),
      timers: new TimerQueue(environment),
      claimRuntimes: new IdTable(),
      waiters: new SlotSet(),
      thread: undefined,
    }
    this.#listening = driver.listen?.(
      (_key, id, notification) => this.#onNotification(id, notification),
      () => this.#onGap(),
    )
  }

  /** Notifications come from outside: a bad one must neither throw at the driver nor harm a claim. */
  #onNotification(id: unknown, notification: unknown): void {
    const claimRuntime = typeof id === 'string' ? this.runtime.claimRuntimes.get(id) : undefined
    if (claimRuntime === undefined) return
    const checked = checkedNotification(notification, this.driver.supports)
    // A claim that had to wait is granted after those that need not, though the news overtake the answers to both.
    const isGrant = checked !== 'poll' && checked.state === 'held'
    if (isGrant && claimRuntime.state.phase === 'asking')
      this.environment.defer(() => claimRuntime.onNotification(checked))
    else claimRuntime.onNotification(checked)
  }

  /** Polls every claim that waits: its grant may have been among the lost notifications. A holder learns of losses by renewing. */
  #onGap(): void {
    for (const waiter of this.runtime.waiters) waiter.poll?.()
  }

  /** Renews from another thread from now on. */
  async startThread(start: StartThread): Promise<void> {
    this.runtime.thread = await start((report) => {
      const claimRuntime = this.runtime.claimRuntimes.get(report.id)
      if ('settledMs' in report) return claimRuntime?.settledElsewhere(report.settledMs)
      const { sent, status, since } = report
      if (sent === undefined) claimRuntime?.onNotification(checkedNotification(status, this.driver.supports))
      else claimRuntime?.renewedElsewhere(status, sent.at, sent.ttlMs, since)
    })
  }

  /**
   * How often this thread renews a claim. With a heartbeat thread it only steps in when that has failed: each renewal
   * there puts this one off.
   */
  ownHeartbeatMs(heartbeatMs: number, ttlMs: number): number {
    if (this.runtime.thread === undefined || heartbeatMs === Infinity) return heartbeatMs
    return Math.max(heartbeatMs, ttlMs / 2)
  }

  get closed(): boolean {
    return this.#closed
  }

  refuseIfClosed(): void {
    if (this.closed) throw clientClosed()
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

  /** The same for what happens to most leases: no event is made that nobody hears. */
  emitReleased(lease: LeaseHandle, heldMs: number): void {
    if (this.hasListener('released')) this.emit('released', lease, { heldMs })
    else this.counters.countRelease(lease.key, heldMs)
  }

  /** Counts, logs and emits what happened to a lock. */
  emitForLock<Name extends EventName>(name: Name, scope: Scope, details: Omit<LockEvents[Name], 'scope'>): void {
    this.counters.count(name, details.key, details as Omit<LockEvents[Name], 'scope' | 'key' | 'fence'>)
    if (this.hasListener(name)) this.#announce(name, scope, details)
  }

  /** Whether it is worth making an event of. */
  hasListener(name: EventName): boolean {
    return this.#logger !== undefined || this.events.wants(name)
  }

  #announce<Name extends EventName>(name: Name, scope: Scope, details: Omit<LockEvents[Name], 'scope'>): void {
    const event = { scope: describeScope(scope), ...details } as LockEvents[Name]
    this.log(logLevels[name], `lock ${name}: ${event.scope}`, event)
    this.events.emit(name, event)
  }

  /** Tells developers something that is wrong with their program: by the logger, or else by the process. */
  warn(message: string): void {
    if (this.#logger !== undefined) this.log('warn', message)
    else if (runtimeProcess?.emitWarning === undefined) console.warn(`LeaseholdWarning: ${message}`)
    else process.emitWarning(message, 'LeaseholdWarning')
  }

  /** The same for what every client of this process would say again: the process is told once. */
  warnOnce(message: string): void {
    if (this.#logger === undefined && saidOnce.has(message)) return
    if (this.#logger === undefined) saidOnce.add(message)
    this.warn(message)
  }

  log(level: keyof Logger, message: string, details?: object): void {
    this.#logger?.[level](message, details)
  }

  /** Ends waiting, releases what is held, and lets go of the store. Repeatable. */
  close(): Promise<void> {
    if (this.#closing !== undefined) return this.#closing
    // Closed before anybody is told: a listener may ask for another lock, or close the client once more.
    let settle: (closing: Promise<void>) => void = () => {}
    this.#closing = new Promise((resolve) => {
      settle = resolve
    })
    this.#closed = true
    settle(this.#close())
    return this.#closing
  }

  async #close(): Promise<void> {
    for (const waiter of this.runtime.waiters) waiter.close()
    // What is meant to outlive this process goes on without us.
    for (const lease of this.leases) if (lease.terms.detached === true) lease.passOn('handed-off')
    const released = [...this.leases].map((lease) => {
      // However often its owner has entered it.
      lease.entries = 1
      return lease.release()
    })
    // Not for ever: what is left ends by its ttl.
    const settled = Promise.all(released).then(() => this.runtime.batcher.settled())
    await settledWithin(this.environment, closeMs, settled)
    this.#listening?.[Symbol.dispose]()
    // What is answered from now on wakes nobody and asks for nothing.
    this.runtime.batcher.close()
    this.runtime.timers.close()
    this.runtime.claimRuntimes.clear()
    await this.runtime.thread?.close()
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
