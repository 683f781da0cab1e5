/**
 * Locks that are PostgreSQL's own session advisory locks: nothing is written for them, and they are gone at once when
 * the connection is.
 *
 * All locks of a driver live in one session, on one connection, by try-lock only: a blocking wait there would stall the
 * rest. There is no queue, so waiting claims are asked again by the client. The server ends a session that is silent for
 * longer than `ttlMs`, so no lease may be longer.
 */
import { keyOf } from '../core/batcher.ts'
import type { Claim, Heard, KeyPage, ListQuery, LockDriver, Request, Standing, Supports } from '../core/driver.ts'
import { positiveMs, type Duration } from '../core/duration.ts'
import { LeaseholdError } from '../core/errors.ts'
import { pageLimit } from '../core/paging.ts'
import { Holdings, renew, standingOf, type Holding } from './postgres/advisory-holdings.ts'
import { advisoryKey } from './postgres/advisory-key.ts'
import { advisoryPage, holdersSql } from './postgres/advisory-listing.ts'
import { NotedNames } from './postgres/advisory-names.ts'
import { StepPlan } from './postgres/advisory-plan.ts'
import { collision, connectionLost, refused, released, unknown, unsupported } from './postgres/advisory-answers.ts'
import { AdvisorySession, type SessionStep } from './postgres/advisory-session.ts'
import { connectionsTo, type Connections, type PostgresSource } from './postgres/connections.ts'
import { changedNothing, faultOf } from './postgres/faults.ts'
import { inSchema, makeAdvisorySchema } from './postgres/schema.ts'
import { uptimeOf } from './postgres/uptime.ts'
import { urlOptions } from './postgres/url.ts'

export { postgresAdvisorySchema } from './postgres/schema.ts'
export type { PostgresSource } from './postgres/connections.ts'

export interface PostgresAdvisoryOptions {
  /** Where fences are counted and names are noted. `leasehold` unless told. */
  readonly schema?: string
  /** The longest lease, and how long the server bears with a silent session. 30 s unless told. */
  readonly ttlMs?: number
  /** How long one statement may take. 5 s unless told. */
  readonly patienceMs?: number
}

const ttlDefaultMs = 30_000
const patienceDefaultMs = 5000

/** Session advisory locks of a PostgreSQL database: a URL, a Pool of `pg`, or an instance of `postgres`. */
export function postgresAdvisory(source: PostgresSource, options: PostgresAdvisoryOptions = {}): LockDriver {
  return new PostgresAdvisoryDriver(source, options)
}

class PostgresAdvisoryDriver implements LockDriver {
  readonly name = 'postgres-advisory'
  readonly supports: Supports
  readonly #source: PostgresSource
  readonly #schema: string
  readonly #ttlMs: number
  readonly #patienceMs: number
  readonly #holdings = new Holdings()
  readonly #listeners = new Set<Heard>()
  readonly #names = new NotedNames()
  #connections: Connections | undefined
  #session: AdvisorySession | undefined
  #introduced = false
  #turn: Promise<unknown> = Promise.resolve()
  #endTimer: NodeJS.Timeout | undefined
  #closed = false

  constructor(source: PostgresSource, options: PostgresAdvisoryOptions) {
    const fromUrl = typeof source === 'string' ? urlOptions(source) : undefined
    this.#source = fromUrl?.url ?? source
    this.#schema = options.schema ?? fromUrl?.options.get('schema') ?? 'leasehold'
    this.#ttlMs =
      options.ttlMs ?? positiveMs((fromUrl?.options.get('ttl') as Duration | undefined) ?? ttlDefaultMs, 'ttl')
    this.#patienceMs = options.patienceMs ?? patienceDefaultMs
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

  send(requests: readonly Request[]): Promise<readonly Standing[]> {
    if (requests.length === 0 && !this.#closed) return Promise.resolve([])
    return this.#inTurn(async () => this.#sendOn(await this.#begun(), requests))
  }

  async list(query: ListQuery): Promise<KeyPage> {
    this.#refuseIfClosed()
    try {
      const { processId } = await this.#inTurn(() => this.#begun())
      const values = [query.key ?? null, query.after ?? '', query.prefix ?? '', (pageLimit(query) + 1) * 8]
      const sql = inSchema(holdersSql, this.#schema)
      const rows = (await this.#connections?.query(sql, values, this.#patienceMs)) ?? []
      return advisoryPage(rows, query, this.#holdings, processId, this.#ttlMs)
    } catch (error) {
      throw faultOf(error)
    }
  }

  async uptimeMs(): Promise<number> {
    this.#refuseIfClosed()
    try {
      await this.#inTurn(() => this.#begun())
      return this.#connections === undefined ? 0 : await uptimeOf(this.#connections, this.#patienceMs)
    } catch (error) {
      throw faultOf(error)
    }
  }

  listen(heard: Heard): Disposable {
    this.#listeners.add(heard)
    return { [Symbol.dispose]: () => void this.#listeners.delete(heard) }
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
      await makeAdvisorySchema(this.#connections, this.#schema, this.#patienceMs)
      const options = { schema: this.#schema, ttlMs: this.#ttlMs, withinMs: this.#patienceMs }
      const session: AdvisorySession = await AdvisorySession.begin(this.#connections, options, () => {
        if (this.#session === session) this.#lose()
      })
      this.#session = session
      this.#introduced = false
      return session
    } catch (error) {
      throw faultOf(error)
    }
  }

  /** The session is gone, or not to be trusted: so is everything in it, and whoever held something must know. */
  #lose(): void {
    const session = this.#session
    this.#session = undefined
    void session?.close().catch(() => {})
    clearTimeout(this.#endTimer)
    for (const { claim } of this.#holdings.clear()) {
      for (const heard of this.#listeners) heard(claim.key, claim.id, connectionLost)
    }
  }

  // ---- requests

  async #sendOn(session: AdvisorySession, requests: readonly Request[]): Promise<readonly Standing[]> {
    const standings = new Map<Request, Standing>()
    try {
      await this.#prepare(session, requests, standings)
      let left = requests.filter((request) => !standings.has(request))
      // Mostly all at once: only requests that hang on what becomes of an earlier one of their key wait for it.
      do left = await this.#wave(session, left, standings)
      while (left.length > 0)
    } catch (error) {
      const fault = faultOf(error)
      if (!changedNothing(error)) this.#lose()
      for (const request of requests) {
        if (!standings.has(request)) standings.set(request, { state: 'unknown', error: fault })
      }
    }
    this.#setEndTimer()
    return requests.map((request) => standings.get(request) ?? unknown)
  }

  /** Notes names and runner where that has not been done, and lifts fences: all of it seldom. */
  async #prepare(
    session: AdvisorySession,
    requests: readonly Request[],
    standings: Map<Request, Standing>,
  ): Promise<void> {
    let floor = 0
    for (const request of requests) if (request.op === 'renew') floor = Math.max(floor, request.fenceFloor ?? 0)
    if (floor > 0) await session.lift(floor, this.#patienceMs)
    const [first] = requests.filter((request) => request.op === 'claim')
    if (first !== undefined && !this.#introduced) {
      await session.introduce(JSON.stringify(first.claim.runner), this.#patienceMs)
      this.#introduced = true
    }
    await this.#names.note(session, requests, standings, this.#patienceMs)
  }

  /** Carries out, in one round trip, all that hangs on nothing undecided. Gives back the rest. */
  async #wave(
    session: AdvisorySession,
    requests: readonly Request[],
    standings: Map<Request, Standing>,
  ): Promise<Request[]> {
    const plan = new StepPlan()
    const postponed: Request[] = []
    for (const holding of this.#holdings.overdue(performance.now())) this.#giveBack(holding, plan)
    for (const request of requests) {
      const hash = advisoryKey(keyOf(request))
      if (plan.isUndecided(hash)) {
        postponed.push(request)
        continue
      }
      if (request.op === 'claim') {
        this.#claim(request.claim, hash, plan, (standing) => standings.set(request, standing))
        continue
      }
      const holding = request.op === 'evict' ? undefined : this.#holdings.find(request.id)
      if (holding === undefined) standings.set(request, unknown)
      else if (request.op === 'release') this.#giveBack(holding, plan, () => standings.set(request, released))
      else if (request.op === 'renew') {
        plan.renew(hash, (now) => {
          renew(holding, request, now)
          standings.set(request, standingOf(holding, now))
        })
      }
    }
    if (!plan.isEmpty) plan.settle(await this.#carryOut(session, plan.steps), performance.now())
    return postponed
  }

  async #carryOut(session: AdvisorySession, steps: readonly SessionStep[]): Promise<readonly number[]> {
    try {
      return await session.carryOut(steps, this.#patienceMs)
    } catch (error) {
      // Refused by the server, half done perhaps: nothing of it may be left behind. Otherwise the session is over.
      if (changedNothing(error)) await session.undo(steps, this.#patienceMs)
      throw error
    }
  }

  #claim(claim: Claim, hash: string, plan: StepPlan, answer: (standing: Standing) => void): void {
    const known = this.#holdings.find(claim.id)
    if (known !== undefined) return answer(standingOf(known, performance.now()))
    const beyond = unsupported(claim)
    if (beyond !== undefined) return answer({ state: 'unknown', error: beyond })
    const here = this.#holdings.of(hash)
    const stranger = here.find((holding) => holding.claim.key !== claim.key)
    if (stranger !== undefined) return answer(collision(claim, stranger.claim.key))
    const shared = claim.mode === 'shared'
    if (here.some((holding) => !shared || holding.claim.mode === 'exclusive')) return answer(refused)
    // The session has a lock once, however many of its claims share it.
    plan.add(here.length > 0 ? 'draw' : shared ? 'lock shared' : 'lock', hash, (fence, now) => {
      if (fence === 0) return answer(refused)
      answer(standingOf(this.#holdings.add(claim, hash, fence, now), now))
    })
  }

  #giveBack(holding: Holding, plan: StepPlan, done: () => void = () => {}): void {
    const forget = (): void => {
      this.#holdings.remove(holding)
      done()
    }
    // Others of this process share it still.
    if (this.#holdings.of(holding.hash).length > 1) return forget()
    plan.add(holding.claim.mode === 'shared' ? 'unlock shared' : 'unlock', holding.hash, forget)
  }

  // ---- the end of leases

  /** A lease that nobody renews is given back at its end, also if nobody asks for anything. */
  #setEndTimer(): void {
    clearTimeout(this.#endTimer)
    const next = this.#holdings.nextEnd()
    if (next === Infinity || this.#closed) return
    const inMs = Math.min(Math.max(0, Math.ceil(next - performance.now())), 2 ** 31 - 1)
    this.#endTimer = setTimeout(() => void this.#giveBackOverdue(), inMs).unref()
  }

  async #giveBackOverdue(): Promise<void> {
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
