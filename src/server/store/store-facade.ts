import { Batcher } from '../../core/client/batcher.ts'
import type {
  Claim,
  KeyPage,
  ListQuery,
  LockDriver,
  Request,
  ClaimStatus,
  Supports,
} from '../../core/contract/driver.ts'
import { claimName } from '../../core/contract/requests.ts'
import type { Environment } from '../../core/time/environment.ts'
import { LeaseholdError, messageOf } from '../../core/errors.ts'
import { limitFault } from '../../core/contract/limits.ts'
import { redactedText } from '../../core/contract/redaction.ts'
import { printable } from '../../core/printable.ts'
import { requireLeaseLifetime } from '../../core/contract/supports.ts'
import type { Caller, Principal } from '../contract/call.ts'
import type { ClaimQuotas } from './claim-quotas.ts'
import type { ClaimAudit } from '../audit/claim-audit.ts'
import type { ServerMetrics } from './metrics.ts'
import type { Sessions } from './sessions.ts'
import { publicFault, publicStatus } from './store-fault.ts'
import type { Logger } from '../../api/client/logger.ts'

/** What a server is called where a store is refused. @internal */
export const compositionName = 'A server'

/** The store as routes see it. */
export interface StoreAccess {
  readonly name: string
  readonly supports: Supports
  /** With ids: a route must not show them. */
  list(query: ListQuery): Promise<KeyPage>
  /** As `list`, for a caller, who has a few pages read at once. */
  listFor(caller: Caller, query: ListQuery): Promise<KeyPage>
  /** Carries requests out, together with all others of this turn of the event loop. Asks for no rights. Never rejects. */
  send(requests: readonly Request[]): Promise<readonly ClaimStatus[]>
  /**
   * Carries out what the caller may ask for, and records that in the audit. The rest is answered unknown; if the caller may do nothing
   * of it, rejects with what it lacks.
   */
  sendFor(caller: Caller, requests: readonly Request[], options?: SendForOptions): Promise<readonly ClaimStatus[]>
  /** Listens for evictions that clients ask for, as `leasehold evict` does, for as long as the server lives. */
  onEviction(listener: (eviction: SeenEviction) => void): void
  /** Calls back when the server closes, before the store does: routes end what they run by themselves. */
  onClose(listener: () => void): void
}

/** How {@link StoreAccess.sendFor} sends. */
export interface SendForOptions {
  /** The session to notify of what is claimed or renewed. */
  readonly session?: string | undefined
  /** True: the route itself shows the evictions, and `onEviction` is not told. */
  readonly evictionsAreShown?: boolean | undefined
}

/** What a client asked for, by whose token, and what came of it. */
export interface SeenEviction {
  readonly principal: Principal
  readonly request: Extract<Request, { op: 'evict' }>
  readonly status: ClaimStatus
}

/** What the facade works with. @internal */
export interface StoreFacadeParts {
  readonly sessions: Sessions
  readonly metrics: ServerMetrics
  readonly faults: FaultLog
  /** Learns of claims that are granted while nobody asks. */
  readonly audit?: ClaimAudit | undefined
  readonly quotas?: ClaimQuotas | undefined
}

/** The one way from routes to the store: every request passes here, is counted, and is logged if it fails. @internal */
export class StoreFacade implements Omit<StoreAccess, 'sendFor' | 'listFor'> {
  readonly #driver: LockDriver
  readonly #batcher: Batcher
  readonly #sessions: Sessions
  readonly #metrics: ServerMetrics
  readonly #faults: FaultLog
  readonly #listening: Disposable | undefined
  readonly #evictionListeners: ((eviction: SeenEviction) => void)[] = []
  readonly #closeListeners: (() => void)[] = []
  /** Those who wait for a claim to change, by its name. */
  readonly #watchers = new Map<string, Set<() => void>>()

  constructor(driver: LockDriver, environment: Environment, parts: StoreFacadeParts) {
    const { sessions, metrics, faults, audit, quotas } = parts
    this.#driver = driver
    // Calls arrive on many connections, each in a tick of its own: the turn is over when all of them have been read.
    this.#batcher = new Batcher(driver, { ...environment, defer: (action) => void setImmediate(action) })
    this.#sessions = sessions
    this.#metrics = metrics
    this.#faults = faults
    this.#listening = driver.listen?.(
      (key, id, notification) => {
        audit?.notified(key, id, notification)
        quotas?.notified(key, id, notification)
        sessions.notify(key, id, notification === 'poll' ? notification : publicStatus(notification))
        for (const wake of this.#watchers.get(claimName({ key, id })) ?? []) wake()
      },
      () => {
        sessions.gap()
        for (const watchers of this.#watchers.values()) for (const wake of watchers) wake()
      },
    )
  }

  get name(): string {
    return this.#driver.name
  }

  get supports(): Supports {
    return this.#driver.supports
  }

  async list(query: ListQuery): Promise<KeyPage> {
    try {
      return await this.#driver.list(query)
    } catch (error) {
      // INVALID is the caller's fault, such as a bad `after`: not a failure of the store.
      if (error instanceof LeaseholdError && error.code === 'INVALID') throw error
      this.#faults.note(error)
      throw error instanceof LeaseholdError ? publicFault(error) : error
    }
  }

  onEviction(listener: (eviction: SeenEviction) => void): void {
    this.#evictionListeners.push(listener)
  }

  onClose(listener: () => void): void {
    this.#closeListeners.push(listener)
  }

  /** A client has asked for this. */
  evictionAsked(eviction: SeenEviction): void {
    for (const listener of this.#evictionListeners) listener(eviction)
  }

  /** Calls `wake` when the claim may have changed without our asking. A hint: it may come in vain, or not at all. */
  watch(claim: Pick<Claim, 'key' | 'id'>, wake: () => void): Disposable {
    const name = claimName(claim)
    const watchers = this.#watchers.get(name) ?? new Set()
    this.#watchers.set(name, watchers.add(wake))
    return {
      [Symbol.dispose]: () => {
        watchers.delete(wake)
        if (watchers.size === 0 && this.#watchers.get(name) === watchers) this.#watchers.delete(name)
      },
    }
  }

  /** Whether anybody watches a claim. */
  isWatched(claim: Pick<Claim, 'key' | 'id'>): boolean {
    return this.#watchers.has(claimName(claim))
  }

  /** Undefined: the store does not say. */
  async dataAgeMs(): Promise<number | undefined> {
    try {
      return await this.#driver.dataAgeMs?.()
    } catch (error) {
      // Another server, whose store does not say.
      if (error instanceof LeaseholdError && error.code === 'UNSUPPORTED') return undefined
      this.#faults.note(error)
      throw error instanceof LeaseholdError ? publicFault(error) : error
    }
  }

  /** As of {@link StoreAccess}; notifications of what is claimed or renewed go to the session. */
  send(requests: readonly Request[], session?: string): Promise<readonly ClaimStatus[]> {
    if (requests.length === 0) return Promise.resolve([])
    const refusal = this.#refusal()
    if (refusal !== undefined) return Promise.resolve(requests.map(() => refusal))
    return new Promise((resolve) => {
      const statuses: ClaimStatus[] = []
      let missing = requests.length
      for (const [index, request] of requests.entries()) {
        if (session !== undefined) this.#sessions.sending(session, request)
        this.#batcher.submit(request, {
          answered: (_, status) => {
            this.#sessions.answered(session, request, status)
            this.#metrics.requestAnswered(request.op, status.state)
            const told = status.state === 'unknown' ? this.#failed(request, status) : status
            statuses[index] = this.#sessions.answerFor(session, request, told)
            missing -= 1
            if (missing === 0) resolve(statuses)
          },
        })
      }
    })
  }

  /** The answer to a request that failed. What is wrong with the request itself is told; what is wrong with the store is logged. */
  #failed(request: Request, status: Extract<ClaimStatus, { state: 'unknown' }>): ClaimStatus {
    if (limitFault(request, this.#driver.supports) !== undefined) return status
    this.#faults.note(status.error)
    return publicStatus(status)
  }

  /** What stands for every answer if the store is no longer the kind that may be served: its driver may reconnect to another. */
  #refusal(): ClaimStatus | undefined {
    try {
      requireLeaseLifetime(this.#driver, compositionName)
      return undefined
    } catch (error) {
      this.#faults.note(error)
      return { state: 'unknown', error: publicFault(error) }
    }
  }

  /** Waits for what is under way, then closes the store. */
  async close(withinMs: number): Promise<void> {
    for (const listener of this.#closeListeners) listener()
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, withinMs)
    })
    await Promise.race([this.#batcher.settled(), late])
    clearTimeout(timer)
    this.#listening?.[Symbol.dispose]()
    this.#batcher.close()
    await this.#driver.close()
  }
}

/** A store that is gone fails every call: the log is for people. */
const everyMs = 60_000
/** Kinds of failure that are told apart. There are fewer: a driver with endless reasons must not make the log endless. */
const kindsMax = 32

/**
 * Logs that the store fails: each kind of failure at once, and then once a minute with how often it has come since. URLs are
 * redacted. @internal
 */
export class FaultLog {
  readonly #logger: Logger | undefined
  readonly #environment: Pick<Environment, 'now'>
  readonly #kinds = new Map<string, { toldAt: number; since: number }>()

  constructor(logger: Logger | undefined, environment: Pick<Environment, 'now'>) {
    this.#logger = logger
    this.#environment = environment
  }

  note(error: unknown): void {
    const kind = this.#kindOf(error)
    kind.since += 1
    const now = this.#environment.now()
    if (now - kind.toldAt < everyMs) return
    const times = kind.since === 1 ? '' : ` (${kind.since} times since the last such line)`
    this.#logger?.warn(`the store failed: ${printable(redactedText(messageOf(error)))}${times}`)
    kind.toldAt = now
    kind.since = 0
  }

  #kindOf(error: unknown): { toldAt: number; since: number } {
    const own = error instanceof LeaseholdError ? `${error.code} ${error.reason ?? ''}` : 'other'
    const name = this.#kinds.has(own) || this.#kinds.size < kindsMax ? own : 'other'
    const known = this.#kinds.get(name) ?? { toldAt: -Infinity, since: 0 }
    this.#kinds.set(name, known)
    return known
  }
}
