import { Batcher } from '../../core/client/batcher.ts'
import type { KeyPage, ListQuery, LockDriver, Request, ClaimStatus, Supports } from '../../core/contract/driver.ts'
import type { Environment } from '../../core/time/environment.ts'
import { LeaseholdError, messageOf } from '../../core/errors.ts'
import { requireLeaseLifetime } from '../../core/contract/supports.ts'
import type { Principal } from '../contract/call.ts'
import type { ServerMetrics } from './metrics.ts'
import type { Sessions } from './sessions.ts'
import type { Logger } from '../../api/client/logger.ts'

/** What a server is called where a store is refused. @internal */
export const compositionName = 'A server'

/** The store as routes see it. */
export interface StoreAccess {
  readonly name: string
  readonly supports: Supports
  /** With ids: a route must not show them. */
  list(query: ListQuery): Promise<KeyPage>
  /** Carries requests out, together with all others of this turn of the event loop. Never rejects. */
  send(requests: readonly Request[]): Promise<readonly ClaimStatus[]>
  /** Listens for evictions that clients ask for, as `leasehold evict` does, for as long as the server lives. */
  onEviction(listener: (eviction: SeenEviction) => void): void
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
}

/** The one way from routes to the store: every request passes here, is counted, and is logged if it fails. @internal */
export class StoreFacade implements StoreAccess {
  readonly #driver: LockDriver
  readonly #batcher: Batcher
  readonly #sessions: Sessions
  readonly #metrics: ServerMetrics
  readonly #faults: FaultLog
  readonly #listening: Disposable | undefined
  readonly #evictionListeners: ((eviction: SeenEviction) => void)[] = []

  constructor(driver: LockDriver, environment: Environment, { sessions, metrics, faults }: StoreFacadeParts) {
    this.#driver = driver
    // Calls arrive on many connections, each in a tick of its own: the turn is over when all of them have been read.
    this.#batcher = new Batcher(driver, { ...environment, defer: (action) => void setImmediate(action) })
    this.#sessions = sessions
    this.#metrics = metrics
    this.#faults = faults
    this.#listening = driver.listen?.(
      (key, id, notification) => sessions.notify(key, id, notification),
      () => sessions.gap(),
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
      if (!(error instanceof LeaseholdError && error.code === 'INVALID')) this.#faults.note(error)
      throw error
    }
  }

  onEviction(listener: (eviction: SeenEviction) => void): void {
    this.#evictionListeners.push(listener)
  }

  /** A client has asked for this. */
  evictionAsked(eviction: SeenEviction): void {
    for (const listener of this.#evictionListeners) listener(eviction)
  }

  /** Undefined: the store does not say. */
  async dataAgeMs(): Promise<number | undefined> {
    try {
      return await this.#driver.dataAgeMs?.()
    } catch (error) {
      // Another server, whose store does not say.
      if (error instanceof LeaseholdError && error.code === 'UNSUPPORTED') return undefined
      this.#faults.note(error)
      throw error
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
            if (status.state === 'unknown') this.#faults.note(status.error)
            statuses[index] = status
            missing -= 1
            if (missing === 0) resolve(statuses)
          },
        })
      }
    })
  }

  /** What stands for every answer if the store is no longer the kind that may be served: its driver may reconnect to another. */
  #refusal(): ClaimStatus | undefined {
    try {
      requireLeaseLifetime(this.#driver, compositionName)
      return undefined
    } catch (error) {
      this.#faults.note(error)
      return { state: 'unknown', error }
    }
  }

  /** Waits for what is under way, then closes the store. */
  async close(withinMs: number): Promise<void> {
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

/** Logs that the store fails: at once, and then once a minute with how often it has failed since. @internal */
export class FaultLog {
  readonly #logger: Logger | undefined
  readonly #environment: Pick<Environment, 'now'>
  #toldAt = -Infinity
  #since = 0

  constructor(logger: Logger | undefined, environment: Pick<Environment, 'now'>) {
    this.#logger = logger
    this.#environment = environment
  }

  note(error: unknown): void {
    this.#since += 1
    const now = this.#environment.now()
    if (now - this.#toldAt < everyMs) return
    const times = this.#since === 1 ? '' : ` (${this.#since} times since the last such line)`
    this.#logger?.warn(`the store failed: ${messageOf(error)}${times}`)
    this.#toldAt = now
    this.#since = 0
  }
}
