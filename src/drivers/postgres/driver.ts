/**
 * Locks in tables of a PostgreSQL database, 13 or newer.
 *
 * Every `send` is one call of one function, and so one round trip and one commit: a copy of the rule of `admission.ts`
 * runs beside the data (`postgres/functions/`). Time is the database's. Grants are pushed by NOTIFY to the one client
 * they concern; where LISTEN does not work, claims that wait are told to ask.
 */
import { randomBytes } from 'node:crypto'
import { keyOf, sendTimeoutFor } from '../../core/contract/requests.ts'
import type {
  OnGap,
  OnNotification,
  KeyPage,
  ListQuery,
  LockDriver,
  Request,
  ClaimStatus,
} from '../../core/contract/driver.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { fullSupport } from '../../core/contract/supports.ts'
import { withinLimits } from '../../core/contract/limits.ts'
import { Listeners } from '../kit/listeners.ts'
import { SingleFlight } from '../../core/time/single-flight.ts'
import { checkOptions, withDefaults } from '../../core/contract/option-names.ts'
import { timerMs } from '../../core/time/duration.ts'
import { pageLimit } from '../kit/paging.ts'
import { readAnswer, readNotification, readPage, type PgNotification } from './answer.ts'
import { connectionsTo, type Connections, type PostgresSource, type Value } from './connections.ts'
import {
  changedNothing,
  faultOf,
  isNotifyQueueFull,
  isSchemaMissing,
  isWorthRepeating,
  refusesContent,
} from './faults.ts'
import { Listener, DeliveredNotifications } from './listener.ts'
import { batchOf, withoutNotifications, type Batch } from './batch.ts'
import { optionsInUrl, postgresNames, type PostgresOptions } from './options.ts'
import { retrying } from './retries.ts'
import { inSchema, makeSchema } from './schema.ts'
import { WaiterPolling } from './waiter-polling.ts'

export { postgresSchema, type SchemaOptions } from './schema.ts'
export type { PostgresOptions } from './options.ts'
export type { PostgresSource } from './connections.ts'
export type { PgClient, PgPool } from './pg-client.ts'
export type { PostgresJs } from './postgres-js-connections.ts'

const poolSizeDefault = 4
/** No PostgreSQL takes more connections. */
const poolSizeMax = 262_143
const sendTimeoutDefaultMs = 5000
/** How often a driver that is in use forgets keys that are not, and how many at once. */
const tidyEveryMs = 600_000
const keysPerTidying = 10_000
/** How long to send no notifications once the server has had no room for them. */
const mutedMs = 10_000

/**
 * A lock store in a PostgreSQL database: a URL, a Pool or Client of `pg`, or an instance of `postgres`.
 *
 * @example
 * ```ts
 * import { createLocks } from 'leasehold'
 * import { postgres } from 'leasehold/postgres'
 * import { Pool } from 'pg'
 *
 * const pool = new Pool({ connectionString: process.env['DATABASE_URL'] })
 * await using locks = await createLocks({ driver: postgres(pool) })
 * ```
 */
export function postgres(source: PostgresSource, options: PostgresOptions = {}): LockDriver {
  checkOptions(options, postgresNames, 'postgres')
  return new PostgresDriver(source, options)
}

class PostgresDriver implements LockDriver {
  readonly name = 'postgres'
  readonly supports = fullSupport
  readonly #source: PostgresSource
  readonly #options: PostgresOptions
  readonly #sendTimeoutMs: number
  /** Where this driver listens. Also its name on every claim it makes. */
  readonly #channel = `leasehold_${randomBytes(12).toString('hex')}`
  /** Calls of functions as they read for this schema. */
  readonly #calls = new Map<string, string>()
  readonly #listeners = new Listeners()
  readonly #opening = new SingleFlight(() => this.#open())
  readonly #waiting: WaiterPolling
  readonly #told = new DeliveredNotifications()
  #connections: Connections | undefined
  #listener: Listener | undefined
  #opened = false
  #closed = false
  #tidiedAt = -Infinity
  /** The server had no room for notifications. */
  #mutedUntil = -Infinity

  constructor(source: PostgresSource, options: PostgresOptions) {
    const fromUrl = typeof source === 'string' ? optionsInUrl(source) : undefined
    this.#source = fromUrl?.url ?? source
    this.#options = withDefaults(fromUrl?.options ?? {}, options)
    const { poolSize = poolSizeDefault } = this.#options
    if (!Number.isInteger(poolSize) || poolSize < 1 || poolSize > poolSizeMax) {
      throw new LeaseholdError('INVALID', `poolSize is ${poolSize}. Use a whole number from 1 to ${poolSizeMax}.`)
    }
    this.#sendTimeoutMs = timerMs(options.sendTimeoutMs ?? sendTimeoutDefaultMs, 'sendTimeoutMs')
    this.#waiting = new WaiterPolling(
      () => this.#listener?.hears !== true,
      (key, id) => this.#notify({ key, id }),
    )
  }

  async open(): Promise<void> {
    this.#refuseIfClosed()
    await this.#ready()
  }

  send(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    return withinLimits(this.supports, requests, (valid) => this.#sendValid(valid))
  }

  async #sendValid(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    this.#refuseIfClosed()
    if (requests.length === 0) return []
    return this.#sendBatch(requests, sendTimeoutFor(requests, this.#sendTimeoutMs))
  }

  async list(query: ListQuery): Promise<KeyPage> {
    this.#refuseIfClosed()
    const limit = pageLimit(query)
    const sql = 'select leasehold.page($1::text, $2::text, $3::text, $4::integer)::text'
    try {
      const values = [query.key ?? null, query.prefix ?? '', query.after ?? '', limit + 1]
      return readPage(await this.#persist(sql, values), limit)
    } catch (error) {
      throw faultOf(error)
    }
  }

  /** Since the tables were created, this copy of them was first seen, or the server started: whichever was last. */
  async dataAgeMs(): Promise<number> {
    this.#refuseIfClosed()
    try {
      return Number(await this.#persist('select leasehold.kept_for_ms()::text', []))
    } catch (error) {
      throw faultOf(error)
    }
  }

  listen(onNotification: OnNotification, onGap?: OnGap): Disposable {
    return this.#listeners.listen(onNotification, onGap)
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#listeners.clear()
    this.#waiting.close()
    // Whoever was opening meanwhile finds the driver closed; what it has opened by then is closed here.
    await this.#opening.settled()
    const { connections, listener } = { connections: this.#connections, listener: this.#listener }
    this.#connections = undefined
    this.#listener = undefined
    await listener?.close()
    await connections?.close()
  }

  // ---- requests

  async #sendBatch(requests: readonly Request[], withinMs: number): Promise<readonly ClaimStatus[]> {
    const startedAt = performance.now()
    const batch = batchOf(requests, this.#channel)
    let text: string
    try {
      text = await this.#carryOut(batch, withinMs)
    } catch (error) {
      const leftMs = withinMs - (performance.now() - startedAt)
      if (requests.length > 1 && refusesContent(error) && leftMs > 0) return this.#sendHalves(requests, leftMs)
      const fault = faultOf(error)
      if (error instanceof LeaseholdError || changedNothing(error)) throw fault
      return requests.map(() => ({ state: 'unknown', error: fault }))
    }
    const { statuses, notifications } = readAnswer(text, batch)
    this.#keepTrack(requests, statuses)
    if (notifications.length > 0)
      queueMicrotask(() => notifications.forEach((notification) => this.#notify(notification)))
    this.#tidyNowAndThen()
    return statuses
  }

  /** One request that the server refuses undoes its whole batch: sent by halves, it fails alone. */
  async #sendHalves(requests: readonly Request[], withinMs: number): Promise<readonly ClaimStatus[]> {
    const startedAt = performance.now()
    const middle = Math.ceil(requests.length / 2)
    const statuses: ClaimStatus[] = []
    // One after the other: both may have requests of one key.
    for (const half of [requests.slice(0, middle), requests.slice(middle)]) {
      try {
        const leftMs = withinMs - (performance.now() - startedAt)
        statuses.push(...(await this.#sendBatch(half, Math.max(1, leftMs))))
      } catch (error) {
        statuses.push(...half.map((): ClaimStatus => ({ state: 'unknown', error: faultOf(error) })))
      }
    }
    return statuses
  }

  /** A batch whose notifications the server has no room for is sent again without: they are only hints. */
  async #carryOut({ sql, values }: Batch, withinMs: number): Promise<string> {
    const startedAt = performance.now()
    if (startedAt < this.#mutedUntil) return this.#persist(withoutNotifications(sql), values, withinMs)
    try {
      return await this.#persist(sql, values, withinMs)
    } catch (error) {
      if (!isNotifyQueueFull(error)) throw error
      this.#mutedUntil = performance.now() + mutedMs
      const leftMs = withinMs - (performance.now() - startedAt)
      return this.#persist(withoutNotifications(sql), values, Math.max(1, leftMs))
    }
  }

  // ---- the way to the database

  async #ready(): Promise<Connections> {
    if (this.#connections !== undefined && this.#opened) return this.#connections
    return this.#opening.opened()
  }

  async #open(): Promise<Connections> {
    const poolSize = this.#options.poolSize ?? poolSizeDefault
    const connections = (this.#connections ??= await connectionsTo(this.#source, poolSize))
    try {
      await makeSchema(connections, this.#options, this.#sendTimeoutMs)
    } catch (error) {
      throw faultOf(error)
    }
    this.#refuseIfClosed()
    if (this.#options.listen !== false && this.#listener === undefined) {
      this.#listener = new Listener({
        connections,
        channel: this.#channel,
        onPayload: (payload) => this.#onNotification(payload),
        onGap: () => this.#waiting.askAll(),
      })
      await this.#listener.start()
    }
    this.#opened = true
    return connections
  }

  /** Calls a function of ours and gives its answer, again if the database says it was only busy. */
  #persist(call: string, values: readonly Value[], withinMs = this.#sendTimeoutMs): Promise<string> {
    const sql = this.#inSchema(call)
    let remade = false
    const attempt = async (leftMs: number): Promise<string> => {
      const connections = this.#opened ? this.#connections : await this.#ready()
      if (connections === undefined || this.#closed) throw this.#closedError()
      return connections.ask(sql, values, leftMs)
    }
    return retrying(withinMs, attempt, (error) => {
      if (!isSchemaMissing(error) || remade) return isWorthRepeating(error)
      // Somebody dropped the schema: make it anew.
      remade = true
      this.#opened = false
      return true
    })
  }

  /** Lets go of names that are no longer used. Can wait for a quieter moment. */
  #tidyNowAndThen(): void {
    const now = performance.now()
    if (now - this.#tidiedAt < tidyEveryMs) return
    this.#tidiedAt = now
    const sql = this.#inSchema('select leasehold.tidy($1::integer)')
    void this.#connections?.query(sql, [keysPerTidying], this.#sendTimeoutMs).catch(() => {})
  }

  #inSchema(sql: string): string {
    let known = this.#calls.get(sql)
    if (known === undefined) this.#calls.set(sql, (known = inSchema(sql, this.#options.schema ?? 'leasehold')))
    return known
  }

  // ---- news

  #keepTrack(requests: readonly Request[], statuses: readonly ClaimStatus[]): void {
    for (const [index, request] of requests.entries()) {
      if (request.op === 'evict') continue
      const id = request.op === 'claim' ? request.claim.id : request.id
      const state = statuses[index]?.state
      if (state === 'waiting') this.#await(keyOf(request), id)
      else if (state !== 'unknown') this.#waiting.delete(id)
    }
    if (!this.#waiting.isEmpty) this.#listener?.check()
  }

  #await(key: string, id: string): void {
    this.#waiting.add(key, id)
    this.#told.forget(id)
  }

  #onNotification(payload: string): void {
    // The claim that is meant has a name too long for a notification.
    if (payload === 'poll') return this.#waiting.askAll()
    try {
      this.#notify(readNotification(JSON.parse(payload) as PgNotification))
    } catch {
      // Not from us: anybody may send to a channel.
    }
  }

  #notify({ key, id, status }: PgNotification): void {
    if (status !== undefined && !this.#told.isNew(id, status)) return
    if (status !== undefined) this.#waiting.delete(id)
    this.#listeners.notify(key, id, status ?? 'poll')
  }

  #refuseIfClosed(): void {
    if (this.#closed) throw this.#closedError()
  }

  #closedError(): LeaseholdError {
    return new LeaseholdError('CLOSED', 'This PostgreSQL store has been closed.')
  }
}
