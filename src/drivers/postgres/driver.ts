/**
 * Locks in tables of a PostgreSQL database, 13 or newer.
 *
 * Every `send` is one call of one function, and so one round trip and one commit: a copy of the rule of `admission.ts`
 * runs beside the data (`postgres/functions/`). Time is the database's. Grants are pushed by NOTIFY to the one client
 * they concern; where LISTEN does not work, the driver reports gaps, so that claims that wait are polled.
 */
import { randomBytes } from 'node:crypto'
import { claimIdOf, keyOf, sendTimeoutFor } from '../../core/contract/requests.ts'
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
import { Lifecycle } from '../kit/lifecycle.ts'
import { checkOptions, withDefaults, type OptionNames } from '../../core/contract/option-names.ts'
import { timerMs } from '../../core/time/duration.ts'
import { claimsLimit, claimsPerPage, pageLimit } from '../kit/paging.ts'
import { sendByWork } from '../kit/work.ts'
import { readAnswer, readPage, readPayload, type ChannelNotification } from './answer.ts'
import { connectionsTo, type Connections, type PostgresSource, type PgValue } from './connections.ts'
import {
  changedNothing,
  postgresError,
  isNotifyQueueFull,
  isSchemaMissing,
  isWorthRepeating,
  refusesContent,
} from './faults.ts'
import { ChannelListener, NotificationOrder } from './listener.ts'
import { batchOf, withoutNotifications, type StatementBatch } from './batch.ts'
import { retrying } from './retries.ts'
import { inSchema, makeSchema, type SchemaOptions } from './schema.ts'
import { postgresParameters, prefixHint } from './url.ts'
import { WaiterPolling } from './waiter-polling.ts'

export { postgresSchema, type SchemaOptions } from './schema.ts'
export { cancelOnLoss, type CancellableClient, type CancellableSource } from './cancel-on-loss.ts'
export type { PostgresSource } from './connections.ts'
export type { PgClient, PgPool } from './pg-client.ts'
export type { PostgresJs } from './postgres-js-connections.ts'

/** The options of `postgres`. */
export interface PostgresOptions extends SchemaOptions {
  /**
   * With a URL: connections for requests, beside the one that listens.
   *
   * @default 4
   */
  readonly poolSize?: number | undefined
  /**
   * False: poll instead of listening, and spare the connection that listens.
   *
   * @default true
   */
  readonly listen?: boolean | undefined
  /**
   * How long one `send` may take, retries included; where short leases are renewed, a third of their ttl at most.
   *
   * @default 5000
   */
  readonly sendTimeoutMs?: number | undefined
}

const optionNames: OptionNames<PostgresOptions> = {
  schema: true,
  unlogged: true,
  poolSize: true,
  listen: true,
  sendTimeoutMs: true,
}

const poolSizeDefault = 4
/** No PostgreSQL takes more connections. */
const poolSizeMax = 262_143
const sendTimeoutDefaultMs = 5000
/** The most requests of a statement that need the whole rule, which takes about a millisecond: other statements wait for its keys. */
const ruleRequestsMax = 32
/** How often a driver that is in use removes keys that are not, and how many at once. */
const tidyEveryMs = 600_000
const keysPerTidying = 10_000
/** How long to send no notifications after the server had no room for them. */
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
  checkOptions(options, optionNames, 'postgres', prefixHint)
  return new PostgresDriver(source, options)
}

class PostgresDriver implements LockDriver {
  readonly name = 'postgres'
  readonly supports = fullSupport
  readonly #source: PostgresSource
  readonly #options: PostgresOptions
  readonly #sendTimeoutMs: number
  /** The channel on which this driver listens. Stored with every claim that it makes. */
  readonly #channel = `leasehold_${randomBytes(12).toString('hex')}`
  /** Calls of functions, rewritten for this schema. */
  readonly #calls = new Map<string, string>()
  readonly #listeners = new Listeners()
  readonly #lifecycle = new Lifecycle('This PostgreSQL store', () => this.#open())
  readonly #polling = new WaiterPolling(
    () => this.#listener?.hears !== true,
    () => this.#listeners.gap(),
  )
  readonly #order = new NotificationOrder()
  /** Also while the life cycle has forgotten them, because the schema is to be made anew. */
  #connections: Connections | undefined
  #listener: ChannelListener | undefined
  #tidiedAt = -Infinity
  /** Until then the server is taken to have no room for notifications. */
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
  }

  async open(): Promise<void> {
    await this.#lifecycle.opened()
  }

  send(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    return withinLimits(this.supports, requests, (valid) => this.#sendValid(valid))
  }

  async #sendValid(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    this.#lifecycle.refuseIfShut()
    if (requests.length === 0) return []
    const withinMs = sendTimeoutFor(requests, this.#sendTimeoutMs)
    return sendByWork(requests, ruleRequestsMax, (slice) => this.#sendBatch(slice, withinMs))
  }

  async list(query: ListQuery): Promise<KeyPage> {
    this.#lifecycle.refuseIfShut()
    const sql =
      'select leasehold.page($1::text, $2::text, $3::text, $4::integer, $5::integer, $6::integer, $7::text)::text'
    try {
      const { key = null, prefix = '', after = '', known = '' } = query
      const values = [key, prefix, after, pageLimit(query) + 1, claimsLimit(query), claimsPerPage, known]
      return readPage(await this.#call(sql, values), query)
    } catch (error) {
      throw postgresError(error)
    }
  }

  /** Since the tables were created, this copy of them was first seen, or the server started: whichever was last. */
  async dataAgeMs(): Promise<number> {
    this.#lifecycle.refuseIfShut()
    try {
      return Number(await this.#call('select leasehold.kept_for_ms()::text', []))
    } catch (error) {
      throw postgresError(error)
    }
  }

  listen(onNotification: OnNotification, onGap?: OnGap): Disposable {
    return this.#listeners.listen(onNotification, onGap)
  }

  async close(): Promise<void> {
    this.#lifecycle.shut()
    this.#listeners.clear()
    this.#polling.close()
    await this.#lifecycle.settled()
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
      const fault = postgresError(error)
      if (error instanceof LeaseholdError || changedNothing(error)) throw fault
      return requests.map(() => ({ state: 'unknown', error: fault }))
    }
    const { statuses, notifications } = readAnswer(text, batch)
    this.#noteWaiting(requests, statuses)
    if (notifications.length > 0)
      queueMicrotask(() => notifications.forEach((notification) => this.#notify(notification)))
    this.#tidyNowAndThen()
    return statuses
  }

  /** A request that the server refuses undoes its whole batch: sent by halves, it fails alone. */
  async #sendHalves(requests: readonly Request[], withinMs: number): Promise<readonly ClaimStatus[]> {
    const startedAt = performance.now()
    const middle = Math.ceil(requests.length / 2)
    const statuses: ClaimStatus[] = []
    // One half after the other: both may have requests of one key.
    for (const half of [requests.slice(0, middle), requests.slice(middle)]) {
      try {
        const leftMs = withinMs - (performance.now() - startedAt)
        statuses.push(...(await this.#sendBatch(half, Math.max(1, leftMs))))
      } catch (error) {
        statuses.push(...half.map((): ClaimStatus => ({ state: 'unknown', error: postgresError(error) })))
      }
    }
    return statuses
  }

  /** If the server has no room for its notifications, the batch is sent again without: they are only hints. */
  async #carryOut({ sql, values }: StatementBatch, withinMs: number): Promise<string> {
    const startedAt = performance.now()
    if (startedAt < this.#mutedUntil) return this.#call(withoutNotifications(sql), values, withinMs)
    try {
      return await this.#call(sql, values, withinMs)
    } catch (error) {
      if (!isNotifyQueueFull(error)) throw error
      this.#mutedUntil = performance.now() + mutedMs
      const leftMs = withinMs - (performance.now() - startedAt)
      return this.#call(withoutNotifications(sql), values, Math.max(1, leftMs))
    }
  }

  // ---- connections

  async #open(): Promise<Connections> {
    const poolSize = this.#options.poolSize ?? poolSizeDefault
    const connections = (this.#connections ??= await connectionsTo(this.#source, poolSize))
    try {
      await makeSchema(connections, this.#options, this.#sendTimeoutMs)
    } catch (error) {
      throw postgresError(error)
    }
    this.#lifecycle.refuseIfShut()
    if (this.#options.listen !== false && this.#listener === undefined) {
      this.#listener = new ChannelListener({
        connections,
        channel: this.#channel,
        onPayload: (payload) => this.#onPayload(payload),
        onGap: () => this.#onGap(),
      })
      await this.#listener.start()
    }
    return connections
  }

  /** The answer of a function of ours, called again if the database was only busy. */
  #call(call: string, values: readonly PgValue[], withinMs = this.#sendTimeoutMs): Promise<string> {
    const sql = this.#inSchema(call)
    let hasReopened = false
    const attempt = async (leftMs: number): Promise<string> => {
      const connections = this.#lifecycle.current ?? (await this.#lifecycle.opened())
      return connections.ask(sql, values, leftMs)
    }
    return retrying(withinMs, attempt, (error) => {
      if (!isSchemaMissing(error) || hasReopened) return isWorthRepeating(error)
      // Somebody dropped the schema: opening makes it anew.
      hasReopened = true
      if (this.#connections !== undefined) this.#lifecycle.forget(this.#connections)
      return true
    })
  }

  /** Removes keys that are no longer used. Nobody waits for that. */
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

  // ---- notifications

  #noteWaiting(requests: readonly Request[], statuses: readonly ClaimStatus[]): void {
    let [count, ttlMs, isNew] = [0, 0, false]
    for (const [index, request] of requests.entries()) {
      const status = statuses[index]
      if (status?.state !== 'waiting') continue
      count += 1
      ttlMs = Math.max(ttlMs, status.ttlMs)
      isNew ||= request.op === 'claim'
      this.#order.forget({ key: keyOf(request), id: claimIdOf(request) ?? '' })
    }
    if (count > 0) this.#polling.answered(count, ttlMs, isNew)
    if (this.#polling.mayWait) this.#listener?.check()
  }

  /** Listening has ceased to work, or works again. */
  #onGap(): void {
    this.#listeners.gap()
    this.#polling.restart()
  }

  #onPayload(payload: string): void {
    // The claim that is meant has too long a name for a notification.
    if (payload === 'poll') return this.#listeners.gap()
    const notification = readPayload(payload)
    if (notification !== undefined) this.#notify(notification)
  }

  #notify({ key, id, status }: ChannelNotification): void {
    if (status === undefined || this.#order.isInOrder({ key, id }, status))
      this.#listeners.notify(key, id, status ?? 'poll')
  }
}

/** What a URL says, `?schema=locks&poolSize=2&unlogged=true`, and the URL for the client, without that. */
function optionsInUrl(source: string): { readonly url: string; readonly options: PostgresOptions } {
  const { url, options } = postgresParameters(source, ['schema', 'poolSize', 'unlogged'])
  const [schema, poolSize, unlogged] = [options.get('schema'), options.get('poolSize'), options.get('unlogged')]
  if (unlogged !== undefined && unlogged !== 'true' && unlogged !== 'false') {
    throw new LeaseholdError('INVALID', `?unlogged=${unlogged} is neither true nor false.`)
  }
  return {
    url,
    options: {
      ...(schema !== undefined && { schema }),
      ...(poolSize !== undefined && { poolSize: Number(poolSize) }),
      ...(unlogged !== undefined && { unlogged: unlogged === 'true' }),
    },
  }
}
