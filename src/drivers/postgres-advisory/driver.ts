/**
 * Locks that are PostgreSQL's own session advisory locks: nothing is written for them, and they are gone at once when
 * the connection is.
 *
 * All locks of a driver live in one session, on one connection, by try-lock only: a blocking wait there would stall the
 * rest. There is no queue, so waiting claims are asked again by the client. The server ends a session that is silent for
 * longer than `ttlMs`, so no lease may be longer.
 */
import { keyOf } from '../../core/contract/requests.ts'
import type {
  OnGap,
  OnNotification,
  KeyPage,
  ListQuery,
  LockDriver,
  Request,
  ClaimStatus,
  Supports,
} from '../../core/contract/driver.ts'
import { timerMs, type Duration } from '../../core/time/duration.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { withinLimits } from '../../core/contract/limits.ts'
import { Listeners } from '../kit/listeners.ts'
import { checkOptions, type OptionNames } from '../../core/contract/option-names.ts'
import { pageLimit } from '../kit/paging.ts'
import { Holdings } from './holdings.ts'
import { advisoryKey } from './key.ts'
import { advisoryPage, holdersSql } from './listing.ts'
import { NotedNames, AdvisorySession } from './session.ts'
import { StepPlan, connectionLost, unknown } from './plan.ts'
import { connectionsTo, type Connections, type PostgresSource } from '../postgres/connections.ts'
import { changedNothing, postgresError, isSchemaMissing, refusesContent } from '../postgres/faults.ts'
import { retrying } from '../postgres/retries.ts'
import { inSchema, makeAdvisorySchema } from '../postgres/schema.ts'
import { postgresParameters } from '../postgres/url.ts'

export { postgresAdvisorySchema } from '../postgres/schema.ts'
export type { PostgresSource } from '../postgres/connections.ts'

/** The options of `postgresAdvisory`. */
export interface PostgresAdvisoryOptions {
  /**
   * A set of locks of its own: where fences are counted and names are noted.
   *
   * @default 'leasehold'
   */
  readonly schema?: string | undefined
  /**
   * The longest lease, and how long the server bears with a silent session.
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
const advisoryHints = { ttl: "It is 'ttlMs' here, in milliseconds." }

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
  #connections: Connections | undefined
  #session: AdvisorySession | undefined
  #introduced = false
  #turn: Promise<unknown> = Promise.resolve()
  #endTimer: NodeJS.Timeout | undefined
  #endTimerAt = Infinity
  #closed = false

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
      await this.#begun()
    })
  }

  send(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    return withinLimits(this.supports, requests, (valid) => this.#sendValid(valid))
  }

  #sendValid(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    if (requests.length === 0 && !this.#closed) return Promise.resolve([])
    return this.#inTurn(async () => this.#sendOn(await this.#begun(), requests))
  }

  async list(query: ListQuery): Promise<KeyPage> {
    this.#refuseIfClosed()
    try {
      const { processId } = await this.#inTurn(() => this.#begun())
      const values = [query.key ?? null, query.after ?? '', query.prefix ?? '', pageLimit(query) + 1]
      const sql = inSchema(holdersSql, this.#schema)
      const rows = (await this.#connections?.query(sql, values, this.#sendTimeoutMs)) ?? []
      return advisoryPage(rows, query, this.#holdings, processId, this.#ttlMs)
    } catch (error) {
      throw postgresError(error)
    }
  }

  async dataAgeMs(): Promise<number> {
    this.#refuseIfClosed()
    try {
      await this.#inTurn(() => this.#begun())
      const sql = inSchema('select leasehold.advisory_kept_for_ms() as "keptForMs"', this.#schema)
      const [row] = (await this.#connections?.query(sql, [], this.#sendTimeoutMs)) ?? []
      return Number(row?.['keptForMs'] ?? 0)
    } catch (error) {
      throw postgresError(error)
    }
  }

  listen(onNotification: OnNotification, onGap?: OnGap): Disposable {
    return this.#listeners.listen(onNotification, onGap)
  }

  /** Ends the session, and so every lock in it. */
  async close(): Promise<void> {
    this.#closed = true
    this.#listeners.clear()
    clearTimeout(this.#endTimer)
    await this.#turn
    this.#holdings.clear()
    const session = this.#session
    this.#session = undefined
    await session?.close().catch(() => {})
    await this.#connections?.close()
    this.#connections = undefined
  }

  // ---- the session

  /** One thing at a time on the one connection. */
  #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const turn = this.#turn
    const result = (async () => {
      await turn
      this.#refuseIfClosed()
      return work()
    })()
    this.#turn = Promise.allSettled([result])
    return result
  }

  async #begun(): Promise<AdvisorySession> {
    if (this.#session !== undefined) return this.#session
    try {
      this.#connections ??= await connectionsTo(this.#source, 1)
      await this.#makeSchema(this.#connections)
      const options = { schema: this.#schema, ttlMs: this.#ttlMs, withinMs: this.#sendTimeoutMs }
      const session: AdvisorySession = await AdvisorySession.begin(this.#connections, options, () => {
        if (this.#session === session) this.#lose()
      })
      this.#session = session
      return session
    } catch (error) {
      throw postgresError(error)
    }
  }

  async #makeSchema(connections: Connections): Promise<void> {
    await makeAdvisorySchema(connections, this.#schema, this.#sendTimeoutMs)
    // The server may have crashed, or somebody dropped the tables: what was noted there is forgotten.
    this.#introduced = false
    this.#names = new NotedNames(this.#schema)
  }

  /** The session is gone, or not to be trusted: so is everything in it, and whoever held something must know. */
  #lose(): void {
    const session = this.#session
    this.#session = undefined
    void session?.close().catch(() => {})
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
        // Somebody dropped the schema. The session has its locks still.
        await this.#makeSchema(this.#connections)
        await this.#attend(session, requests, statuses)
      }
    } catch (error) {
      const fault = postgresError(error)
      if (!changedNothing(error)) this.#lose()
      return statuses.map((status) => status ?? { state: 'unknown', error: fault })
    } finally {
      this.#setEndTimer()
    }
    return statuses.map((status) => status ?? unknown)
  }

  async #attend(
    session: AdvisorySession,
    requests: readonly Request[],
    statuses: (ClaimStatus | undefined)[],
  ): Promise<void> {
    await this.#prepare(session, requests, statuses)
    // Mostly all at once: only requests that hang on what becomes of an earlier one of their key wait for it.
    while (await this.#wave(session, requests, statuses));
  }

  /** Notes names and runner where that has not been done, and lifts fences: all of it seldom. */
  async #prepare(
    session: AdvisorySession,
    requests: readonly Request[],
    statuses: (ClaimStatus | undefined)[],
  ): Promise<void> {
    try {
      await this.#prepareAll(session, requests, statuses)
    } catch (error) {
      if (requests.length === 1 || !refusesContent(error)) throw error
      // One of them is refused: it must fail alone.
      for (const [place, request] of requests.entries()) {
        const own = [statuses[place]]
        try {
          await this.#prepareAll(session, [request], own)
        } catch (refusal) {
          if (!refusesContent(refusal)) throw refusal
          own[0] = { state: 'unknown', error: postgresError(refusal) }
        }
        statuses[place] = own[0]
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
      // All locks count by one sequence: only who holds something lifts it.
      const isHolder = request.op === 'renew' && this.#holdings.find(request.key, request.id) !== undefined
      if (isHolder) floor = Math.max(floor, request.fenceFloor ?? 0)
    }
    if (floor > 0) await retrying(this.#sendTimeoutMs, (leftMs) => session.lift(floor, leftMs))
    const first = this.#introduced ? undefined : requests.find((request) => request.op === 'claim')
    if (first !== undefined) {
      const runner = JSON.stringify(first.claim.runner)
      await retrying(this.#sendTimeoutMs, (leftMs) => session.introduce(runner, leftMs))
      this.#introduced = true
    }
    await retrying(this.#sendTimeoutMs, (leftMs) => this.#names.note(session, requests, statuses, leftMs))
  }

  /** Carries out, in one round trip, all that hangs on nothing undecided. Tells whether something is left. */
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
      // Refused by the server, half done perhaps: nothing of it may be left behind. Otherwise the session is over.
      if (changedNothing(error)) {
        // Without its functions the server would refuse that, too.
        if (isSchemaMissing(error) && this.#connections) await this.#makeSchema(this.#connections).catch(() => {})
        await session.undo(plan.steps, this.#sendTimeoutMs).catch(() => this.#lose())
        plan.forgetGivenBack()
      }
      throw error
    }
  }

  // ---- the end of leases

  /** A lease that nobody renews is given back at its end, also if nobody asks for anything. */
  #setEndTimer(): void {
    const next = this.#holdings.nextEnd
    // One that rings for nobody only looks: cheaper than moving it each time.
    if (this.#closed || next >= this.#endTimerAt) return
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
        if (this.#session !== undefined) await this.#sendOn(this.#session, [])
      })
    } catch {
      // Closed meanwhile.
    }
  }

  #refuseIfClosed(): void {
    if (this.#closed) throw new LeaseholdError('CLOSED', 'This PostgreSQL store has been closed.')
  }
}
