/**
 * Locks that are PostgreSQL's own session advisory locks: nothing is written for them, and they are gone at once when
 * the connection is.
 *
 * All locks of a driver live in one session, on one connection, by try-lock only: a blocking wait there would stall the
 * rest. There is no queue, so the client sends claims that wait again. The server ends a session that is silent for longer
 * than `ttlMs`, so no lease may be longer.
 */
import { keyOf } from '../../core/contract/requests.ts'
import type {
  OnGap,
  OnNotification,
  KeyPage,
  ListQuery,
  OwnerWait,
  SharedWaits,
  LockDriver,
  Request,
  ClaimStatus,
  Supports,
} from '../../core/contract/driver.ts'
import { timerMs, type Duration } from '../../core/time/duration.ts'
import { withinLimits } from '../../core/contract/limits.ts'
import { Lifecycle } from '../kit/lifecycle.ts'
import { Listeners } from '../kit/listeners.ts'
import { checkOptions, type OptionNames } from '../../core/contract/option-names.ts'
import { pageLimit } from '../kit/paging.ts'
import { Holdings } from './holdings.ts'
import { advisoryKey } from './key.ts'
import { advisoryPage, holdersSql } from './listing.ts'
import { shareWaitsSql, sharedWaits } from './waits.ts'
import { NotedNames, AdvisorySession } from './session.ts'
import { connectionLost, StepPlan, unheldClaim } from './plan.ts'
import { connectionsTo, type Connections, type PostgresSource } from '../postgres/connections.ts'
import { changedNothing, postgresError, isSchemaMissing, refusesContent } from '../postgres/faults.ts'
import { retrying } from '../postgres/retries.ts'
import { inSchema, makeAdvisorySchema } from '../postgres/schema.ts'
import { postgresParameters, prefixHint } from '../postgres/url.ts'

export { postgresAdvisorySchema } from '../postgres/schema.ts'
export type { PostgresSource } from '../postgres/connections.ts'

/** The options of `postgresAdvisory`. */
export interface PostgresAdvisoryOptions {
  /**
   * The schema of its own set of locks, where fences are counted and names are noted.
   *
   * @default 'leasehold'
   */
  readonly schema?: string | undefined
  /**
   * The longest lease, and how long a session may be silent before the server ends it.
   *
   * @default 30_000
   */
  readonly ttlMs?: number | undefined
  /**
   * How long one statement may take.
   *
   * @default 5000
   */
  readonly sendTimeoutMs?: number | undefined
}

const advisoryNames: OptionNames<PostgresAdvisoryOptions> = { schema: true, ttlMs: true, sendTimeoutMs: true }
const advisoryHints = { ...prefixHint, ttl: "It is 'ttlMs' here, in milliseconds." }

const ttlDefaultMs = 30_000
const sendTimeoutDefaultMs = 5000

/**
 * Session advisory locks of a PostgreSQL database: a URL, a Pool of `pg`, or an instance of `postgres`.
 *
 * @example
 * ```ts
 * import { createLocks } from 'leasehold'
 * import { postgresAdvisory } from 'leasehold/postgres-advisory'
 *
 * await using locks = await createLocks({ driver: postgresAdvisory('postgres://127.0.0.1/shop') })
 * ```
 */
export function postgresAdvisory(source: PostgresSource, options: PostgresAdvisoryOptions = {}): LockDriver {
  checkOptions(options, advisoryNames, 'postgresAdvisory', advisoryHints)
  return new PostgresAdvisoryDriver(source, options)
}

class PostgresAdvisoryDriver implements LockDriver {
  readonly name = 'postgres-advisory'
  readonly supports: Supports
  readonly #source: PostgresSource
  readonly #schema: string
  readonly #ttlMs: number
  readonly #sendTimeoutMs: number
  readonly #holdings = new Holdings()
  readonly #listeners = new Listeners()
  #names: NotedNames
  readonly #lifecycle = new Lifecycle<AdvisorySession>(
    'This PostgreSQL store',
    () => this.#begin(),
    (session) => session.close().catch(() => {}),
  )
  #connections: Connections | undefined
  #hasNotedRunner = false
  #turn: Promise<unknown> = Promise.resolve()
  #endTimer: NodeJS.Timeout | undefined
  #endTimerAt = Infinity

  constructor(source: PostgresSource, options: PostgresAdvisoryOptions) {
    const fromUrl = typeof source === 'string' ? postgresParameters(source, ['schema', 'ttl']) : undefined
    this.#source = fromUrl?.url ?? source
    this.#schema = options.schema ?? fromUrl?.options.get('schema') ?? 'leasehold'
    this.#names = new NotedNames(this.#schema)
    const ttl = options.ttlMs ?? (fromUrl?.options.get('ttl') as Duration | undefined)
    this.#ttlMs = timerMs(ttl ?? ttlDefaultMs, options.ttlMs === undefined ? 'ttl' : 'ttlMs')
    this.#sendTimeoutMs = timerMs(options.sendTimeoutMs ?? sendTimeoutDefaultMs, 'sendTimeoutMs')
    this.supports = {
      shared: true,
      limit: false,
      range: false,
      queue: false,
      push: true,
      priority: false,
      convert: false,
      evict: [],
      grace: false,
      maxHold: false,
      fence: true,
      lifetime: 'connection',
      ttlMinMs: 1,
      ttlMaxMs: this.#ttlMs,
      ttlDefaultMs: this.#ttlMs,
    }
  }

  open(): Promise<void> {
    return this.#inTurn(async () => {
      await this.#lifecycle.opened()
    })
  }

  send(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    return withinLimits(this.supports, requests, (valid) => this.#sendValid(valid))
  }

  #sendValid(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    if (requests.length === 0 && !this.#lifecycle.isShut) return Promise.resolve([])
    return this.#inTurn(async () => this.#sendOn(await this.#lifecycle.opened(), requests))
  }

  async list(query: ListQuery): Promise<KeyPage> {
    this.#lifecycle.refuseIfShut()
    try {
      const { processId } = await this.#inTurn(() => this.#lifecycle.opened())
      const values = [query.key ?? null, query.after ?? '', query.prefix ?? '', pageLimit(query) + 1]
      const sql = inSchema(holdersSql, this.#schema)
      const rows = (await this.#connections?.query(sql, values, this.#sendTimeoutMs)) ?? []
      return advisoryPage(rows, query, this.#holdings, processId, this.#ttlMs)
    } catch (error) {
      throw postgresError(error)
    }
  }

  async dataAgeMs(): Promise<number> {
    this.#lifecycle.refuseIfShut()
    try {
      await this.#inTurn(() => this.#lifecycle.opened())
      const sql = inSchema('select leasehold.advisory_kept_for_ms() as "keptForMs"', this.#schema)
      const [row] = (await this.#connections?.query(sql, [], this.#sendTimeoutMs)) ?? []
      return Number(row?.['keptForMs'] ?? 0)
    } catch (error) {
      throw postgresError(error)
    }
  }

  async shareWaits(client: string, waits: readonly OwnerWait[]): Promise<SharedWaits> {
    this.#lifecycle.refuseIfShut()
    try {
      await this.#inTurn(() => this.#lifecycle.opened())
      const sql = inSchema(shareWaitsSql, this.#schema)
      const values = [client, JSON.stringify(waits)]
      return sharedWaits((await this.#connections?.query(sql, values, this.#sendTimeoutMs)) ?? [])
    } catch (error) {
      throw postgresError(error)
    }
  }

  listen(onNotification: OnNotification, onGap?: OnGap): Disposable {
    return this.#listeners.listen(onNotification, onGap)
  }

  /** Ends the session, and so every lock in it. */
  async close(): Promise<void> {
    const session = this.#lifecycle.shut()
    this.#listeners.clear()
    clearTimeout(this.#endTimer)
    await this.#turn
    this.#holdings.clear()
    await session?.close().catch(() => {})
    // Taken before they are closed: a pool refuses to be ended twice.
    const connections = this.#connections
    this.#connections = undefined
    await connections?.close()
  }

  // ---- the session

  /** Runs `work` when all that was begun before has ended: there is one connection. */
  #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const turn = this.#turn
    const result = (async () => {
      await turn
      this.#lifecycle.refuseIfShut()
      return work()
    })()
    this.#turn = Promise.allSettled([result])
    return result
  }

  async #begin(): Promise<AdvisorySession> {
    try {
      this.#connections ??= await connectionsTo(this.#source, 1)
      await this.#makeSchema(this.#connections)
      const options = { schema: this.#schema, ttlMs: this.#ttlMs, withinMs: this.#sendTimeoutMs }
      const session: AdvisorySession = await AdvisorySession.begin(this.#connections, options, () => {
        if (this.#lifecycle.current === session) this.#lose(session)
      })
      return session
    } catch (error) {
      throw postgresError(error)
    }
  }

  async #makeSchema(connections: Connections): Promise<void> {
    await makeAdvisorySchema(connections, this.#schema, this.#sendTimeoutMs)
    // The server may have crashed, or somebody dropped the tables: what was noted there may be gone.
    this.#hasNotedRunner = false
    this.#names = new NotedNames(this.#schema)
  }

  /** The session is gone, or not to be trusted, and every lock in it: holders are notified. */
  #lose(session: AdvisorySession): void {
    this.#lifecycle.forget(session)
    void session.close().catch(() => {})
    for (const { claim } of this.#holdings.clear()) this.#listeners.notify(claim.key, claim.id, connectionLost)
  }

  // ---- requests

  async #sendOn(session: AdvisorySession, requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    const statuses: (ClaimStatus | undefined)[] = requests.map(() => undefined)
    try {
      try {
        await this.#attend(session, requests, statuses)
      } catch (error) {
        if (!isSchemaMissing(error) || this.#connections === undefined) throw error
        // Somebody dropped the schema. The session still has its locks.
        await this.#makeSchema(this.#connections)
        await this.#attend(session, requests, statuses)
      }
    } catch (error) {
      const fault = postgresError(error)
      if (!changedNothing(error)) this.#lose(session)
      return statuses.map((status) => status ?? { state: 'unknown', error: fault })
    } finally {
      this.#setEndTimer()
    }
    return statuses.map((status) => status ?? unheldClaim)
  }

  async #attend(
    session: AdvisorySession,
    requests: readonly Request[],
    statuses: (ClaimStatus | undefined)[],
  ): Promise<void> {
    await this.#prepare(session, requests, statuses)
    // Mostly one round trip: only a request that depends on an earlier one of its key waits for another.
    while (await this.#wave(session, requests, statuses));
  }

  /** Notes names and runner that are not noted yet, and lifts fences. Mostly there is nothing to do. */
  async #prepare(
    session: AdvisorySession,
    requests: readonly Request[],
    statuses: (ClaimStatus | undefined)[],
  ): Promise<void> {
    try {
      await this.#prepareAll(session, requests, statuses)
    } catch (error) {
      if (requests.length === 1 || !refusesContent(error)) throw error
      // One of the requests is refused: it must fail alone.
      for (const [place, request] of requests.entries()) {
        const single = [statuses[place]]
        try {
          await this.#prepareAll(session, [request], single)
        } catch (refusal) {
          if (!refusesContent(refusal)) throw refusal
          single[0] = { state: 'unknown', error: postgresError(refusal) }
        }
        statuses[place] = single[0]
      }
    }
  }

  async #prepareAll(
    session: AdvisorySession,
    requests: readonly Request[],
    statuses: (ClaimStatus | undefined)[],
  ): Promise<void> {
    let floor = 0
    for (const request of requests) {
      // All locks count by one sequence, which only a holder may lift.
      const isHolder = request.op === 'renew' && this.#holdings.find(request.key, request.id) !== undefined
      if (isHolder) floor = Math.max(floor, request.fenceFloor ?? 0)
    }
    if (floor > 0) await retrying(this.#sendTimeoutMs, (leftMs) => session.lift(floor, leftMs))
    const first = this.#hasNotedRunner ? undefined : requests.find((request) => request.op === 'claim')
    if (first !== undefined) {
      const runner = JSON.stringify(first.claim.runner)
      await retrying(this.#sendTimeoutMs, (leftMs) => session.noteRunner(runner, leftMs))
      this.#hasNotedRunner = true
    }
    await retrying(this.#sendTimeoutMs, (leftMs) => this.#names.note(session, requests, statuses, leftMs))
  }

  /** Carries out, in one round trip, all requests that depend on none before them. Gives whether some are left. */
  async #wave(
    session: AdvisorySession,
    requests: readonly Request[],
    statuses: (ClaimStatus | undefined)[],
  ): Promise<boolean> {
    const plan = new StepPlan(this.#holdings)
    let postponed = false
    for (const holding of this.#holdings.expired(performance.now())) plan.giveBack(holding, undefined)
    for (let place = 0; place < requests.length; place += 1) {
      const request = requests[place]
      if (request === undefined || statuses[place] !== undefined) continue
      const hash = advisoryKey(keyOf(request), this.#schema)
      if (plan.isUndecided(hash)) postponed = true
      else statuses[place] = plan.add(request, hash, place)
    }
    if (!plan.isEmpty) plan.settle(await this.#carryOut(session, plan), statuses)
    return postponed
  }

  async #carryOut(session: AdvisorySession, plan: StepPlan): Promise<readonly number[]> {
    try {
      return await session.carryOut(plan.steps, this.#sendTimeoutMs)
    } catch (error) {
      // If the server refused the steps, some may have been done: undo them. Otherwise the session is over.
      if (changedNothing(error)) {
        // Without its functions the server would refuse to undo them, too.
        if (isSchemaMissing(error) && this.#connections) await this.#makeSchema(this.#connections).catch(() => {})
        await session.undo(plan.steps, this.#sendTimeoutMs).catch(() => this.#lose(session))
        plan.forgetGivenBack()
      }
      throw error
    }
  }

  // ---- the end of leases

  /** Gives back a lease at its end if it is not renewed, also if no request comes. */
  #setEndTimer(): void {
    const next = this.#holdings.nextEnd
    // A timer that finds nothing to do is cheaper than moving it with each renewal.
    if (this.#lifecycle.isShut || next >= this.#endTimerAt) return
    clearTimeout(this.#endTimer)
    this.#endTimerAt = next
    const inMs = Math.min(Math.max(0, Math.ceil(next - performance.now())), 2 ** 31 - 1)
    this.#endTimer = setTimeout(() => {
      this.#endTimerAt = Infinity
      void this.#giveBackExpired()
    }, inMs).unref()
  }

  async #giveBackExpired(): Promise<void> {
    try {
      await this.#inTurn(async () => {
        const session = this.#lifecycle.current
        if (session !== undefined) await this.#sendOn(session, [])
      })
    } catch {
      // Closed meanwhile.
    }
  }
}
