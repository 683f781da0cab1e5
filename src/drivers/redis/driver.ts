/**
 * Locks in Redis or Valkey: one server, behind Sentinel, or a Cluster.
 *
 * A whole batch is one call of a Lua script that runs the rule of `admission.ts` beside the data, by the server's clock.
 * The script publishes notifications to the channel of the client that owns the claim.
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
import { fullSupport } from '../../core/contract/supports.ts'
import { withinLimits } from '../../core/contract/limits.ts'
import { Lifecycle } from '../kit/lifecycle.ts'
import { Listeners } from '../kit/listeners.ts'
import { checkOptions, type OptionNames } from '../../core/contract/option-names.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { timerMs } from '../../core/time/duration.ts'
import { parseRedisUrl } from './address.ts'
import { callsOf, isOneCall, MigratingSlots, type CallIndexes } from './calls.ts'
import { readDataAge, scriptsFor } from './script.ts'
import { decodeNotification, decodeReply, decodeSolo, openReply } from './decoding.ts'
import { dial } from './dial.ts'
import { encodeBatch, encodeSolo, type Sender } from './encoding.ts'
import {
  redisError,
  isSlotMigrating,
  isTimedOut,
  isReadOnly,
  isUnknownScript,
  replyWithin,
  wasNotSent,
} from './errors.ts'
import { hashTagOf } from './hash-tags.ts'
import { IoredisTransport, type IoredisClient } from './ioredis.ts'
import { RedisKeyspace } from './keyspace.ts'
import type { RedisTransport } from './transport.ts'
import { redisPage } from './listing.ts'
import {
  NodeRedisClusterTransport,
  NodeRedisTransport,
  type NodeRedisClient,
  type NodeRedisCluster,
} from './node-redis.ts'

export type { IoredisClient } from './ioredis.ts'
export type { NodeRedisClient, NodeRedisCluster } from './node-redis.ts'

/** A client you made: of ioredis (`Redis` or `Cluster`) or of node-redis (`createClient` or `createCluster`). */
export type RedisClient = IoredisClient | NodeRedisClient | NodeRedisCluster

/** The options of `redis` beside a URL or a client. */
export interface RedisSettings {
  /**
   * Begins every name in Redis: up to 200 characters, without braces and control characters. In a URL: `?prefix=billing:locks:`, which
   * this option overrides.
   *
   * @default 'leasehold:'
   */
  readonly prefix?: string | undefined
  /**
   * How long to wait for a reply before the outcome counts as unknown. Renewals wait for a third of their ttl at most.
   *
   * @default 5000
   */
  readonly commandTimeoutMs?: number | undefined
  /** The store's time in milliseconds, for tests that move it. All drivers of one store must share it. */
  readonly clockForTests?: (() => number) | undefined
}

/** The options of `redis` where they are all it is given: what is beside a URL or a client, and one of these. */
export interface RedisOptions extends RedisSettings {
  /**
   * `redis://user:password@host:6379/0`, `rediss://…`, `redis+unix:///path` or `redis-cluster://host:6379,host:6379`.
   *
   * @default 'redis://127.0.0.1'
   */
  readonly url?: string | undefined
  /** A client to use instead of a URL. The client stays yours: closing the driver leaves it open. */
  readonly client?: RedisClient | undefined
}

const settingNames: OptionNames<RedisSettings> = { prefix: true, commandTimeoutMs: true, clockForTests: true }
const redisNames: OptionNames<RedisOptions> = { url: true, client: true, ...settingNames }
const hints = { keyPrefix: "It is 'prefix' here." }

const commandTimeoutDefaultMs = 5000

/**
 * A lock store in Redis, out of a URL or a client, with settings beside it, or out of options that have them all.
 *
 * @example
 * ```ts
 * import { createLocks } from 'leasehold'
 * import { redis } from 'leasehold/redis'
 * import { Redis } from 'ioredis'
 *
 * const client = new Redis()
 * await using locks = await createLocks({ driver: redis(client, { prefix: 'billing:locks:' }) })
 * ```
 */
export function redis(from: string | RedisClient | RedisOptions = {}, settings?: RedisSettings): LockDriver {
  if (typeof from === 'string' || isClient(from)) {
    checkOptions(settings, settingNames, 'redis', hints)
    return new RedisDriver({ ...settings, ...(typeof from === 'string' ? { url: from } : { client: from }) })
  }
  checkOptions(from, redisNames, 'redis', hints)
  if (settings === undefined && (from.url === undefined || from.client === undefined)) return new RedisDriver(from)
  throw new LeaseholdError('INVALID', 'redis takes a url or a client, and its options once. Leave one out.')
}

function isClient(from: RedisClient | RedisOptions): from is RedisClient {
  return typeof from === 'object' && from !== null && ('call' in from || 'sendCommand' in from)
}

class RedisDriver implements LockDriver {
  readonly name = 'redis'
  readonly supports = fullSupport
  readonly #options: RedisOptions
  readonly #sender: Sender
  readonly #commandTimeoutMs: number
  readonly #listeners = new Listeners()
  readonly #lifecycle = new Lifecycle(
    'This Redis store',
    () => this.#connect(),
    (transport) => transport.close(),
  )
  readonly #migrating = new MigratingSlots()
  /** The transport that is being opened. */
  #dialled: RedisTransport | undefined
  /** Whether `dataAgeMs` was ever called: from then on the age is read after each call of claims. */
  #readsAge = false
  /** The age read after the last call. */
  #dataAge: Promise<number> | undefined

  constructor(options: RedisOptions) {
    // A wrong URL throws here, not at the first use.
    const address = options.url === undefined ? undefined : parseRedisUrl(options.url)
    const keyspace = new RedisKeyspace(options.prefix ?? address?.prefix ?? 'leasehold:')
    const channel = keyspace.channel(randomBytes(9).toString('base64url'))
    this.#options = options
    this.#sender = { keyspace, channel, clock: options.clockForTests }
    this.#commandTimeoutMs = timerMs(options.commandTimeoutMs ?? commandTimeoutDefaultMs, 'commandTimeoutMs')
  }

  async open(): Promise<void> {
    await this.#lifecycle.opened()
  }

  send(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    return withinLimits(this.supports, requests, (valid) => this.#sendValid(valid))
  }

  #sendValid(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    const transport = this.#lifecycle.current
    return transport === undefined ? this.#sendOnceConnected(requests) : this.#sendOver(transport, requests)
  }

  async list(query: ListQuery): Promise<KeyPage> {
    const transport = await this.#lifecycle.opened()
    const { keyspace, clock } = this.#sender
    // The timeout is for each step, not for the page: SCAN goes over all keys of Redis, also those of other programs.
    const stepMs = this.#commandTimeoutMs
    try {
      return await redisPage({ transport, keyspace, clock, stepMs }, query)
    } catch (error) {
      throw redisError(error)
    }
  }

  listen(onNotification: OnNotification, onGap?: OnGap): Disposable {
    return this.#listeners.listen(onNotification, onGap)
  }

  async dataAgeMs(): Promise<number> {
    const transport = await this.#lifecycle.opened()
    this.#readsAge = true
    const dataAge = this.#dataAge
    this.#dataAge = undefined
    try {
      return await (dataAge ?? readDataAge(transport, this.#sender.keyspace, this.#commandTimeoutMs))
    } catch (error) {
      throw redisError(error)
    }
  }

  async close(): Promise<void> {
    const transport = this.#lifecycle.shut()
    this.#listeners.clear()
    await this.#dialled?.close()
    await transport?.close()
    // An attempt to open that is under way finds the driver shut, and closes what it opened.
    await this.#lifecycle.settled()
  }

  // ---- the connection

  async #connect(): Promise<RedisTransport> {
    const { client, url } = this.#options
    const transport =
      client === undefined ? await dial(parseRedisUrl(url ?? 'redis://127.0.0.1')) : transportOver(client)
    this.#dialled = transport
    try {
      await replyWithin(this.#prepare(transport), this.#commandTimeoutMs)
      return transport
    } catch (error) {
      await transport.close()
      throw redisError(error)
    } finally {
      this.#dialled = undefined
    }
  }

  async #prepare(transport: RedisTransport): Promise<void> {
    const withinMs = this.#commandTimeoutMs
    this.#lifecycle.refuseIfShut()
    await transport.open(withinMs)
    const onMessage = (message: string): void => this.#onNotification(message)
    const onGap = (): void => this.#listeners.gap()
    await transport.subscribe(this.#sender.channel, { onMessage, onGap }, withinMs)
  }

  // ---- requests

  async #sendOnceConnected(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    const transport = await this.#lifecycle.opened()
    this.#lifecycle.refuseIfShut()
    return this.#sendOver(transport, requests)
  }

  #sendOver(transport: RedisTransport, requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    return isOneCall(requests, transport.cluster)
      ? this.#sendCall(transport, requests)
      : this.#sendCalls(transport, requests)
  }

  /** Sends one call. With few promises on the way: for a single lock they would take longer than the rest. */
  #sendCall(transport: RedisTransport, requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    const scripts = scriptsFor(transport)
    const solo = requests.length === 1 ? encodeSolo(requests[0] as Request, this.#sender) : undefined
    const script = solo === undefined ? scripts.batch : scripts.solo
    const { keys, values } = solo ?? encodeBatch(requests, this.#sender)
    const args = [script.sha, String(keys.length), ...keys, ...values]
    const timeoutMs = sendTimeoutFor(requests, this.#commandTimeoutMs)
    const answered = (reply: unknown): SendResult => this.#answers(transport, requests, reply, solo !== undefined)
    const failed = (error: unknown): SendResult => this.#failed(transport, requests, error)
    const called = transport.call('EVALSHA', args, keys[0], timeoutMs).then(answered, (error: unknown) => {
      if (!isUnknownScript(error)) return failed(error)
      // The age was read before the call was carried out.
      this.#dataAge = undefined
      return transport.call('EVAL', args.with(0, script.text), keys[0], timeoutMs).then(answered, failed)
    })
    if (this.#readsAge) this.#readAge(transport, requests)
    return called
  }

  /** Reads the age of the data right after a call, over the same connection: the age is not older than the call's answer. */
  #readAge(transport: RedisTransport, requests: readonly Request[]): void {
    this.#dataAge = undefined
    if (transport.cluster || requests.every(({ op }) => op !== 'claim')) return
    this.#dataAge = readDataAge(transport, this.#sender.keyspace, this.#commandTimeoutMs)
    // `dataAgeMs` awaits it.
    this.#dataAge.catch(() => {})
  }

  #answers(transport: RedisTransport, requests: readonly Request[], reply: unknown, solo: boolean): SendResult {
    try {
      const { text, notifications } = openReply(reply)
      const statuses = solo ? [decodeSolo(text, requests[0] as Request)] : decodeReply(text, requests)
      for (const message of notifications) this.#onNotification(message)
      if (!solo && statuses.some((status) => isUnknown(status) && isReadOnly(status.error))) transport.renew()
      return statuses
    } catch (error) {
      return this.#failed(transport, requests, error)
    }
  }

  #failed(transport: RedisTransport, requests: readonly Request[], error: unknown): SendResult {
    if (transport.cluster && this.#mustDivide(requests, error)) return this.#sendCalls(transport, requests)
    if (isReadOnly(error)) transport.renew()
    const explained = redisError(error)
    if (wasNotSent(error)) throw explained
    return unknown(requests, explained)
  }

  /** Sends several calls. The status of a call that could not be sent is unknown, not an error, as others were sent. */
  async #sendCalls(transport: RedisTransport, requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    const answers: ClaimStatus[] = []
    const sendInTurn = async (calls: readonly CallIndexes[]): Promise<void> => {
      let failure: unknown
      for (const indexes of calls) {
        const batch = indexes.map((index) => requests[index] as Request)
        // After a call that failed the next would only wait as long again.
        const statuses = failure === undefined ? await this.#sendOrUnknown(transport, batch) : unknown(batch, failure)
        for (const [place, index] of indexes.entries()) answers[index] = statuses[place] as ClaimStatus
        if (statuses.every(isUnknown)) failure = statuses[0]?.error
      }
    }
    await Promise.all(callsOf(requests, transport.cluster, this.#migrating).map(sendInTurn))
    return answers
  }

  #sendOrUnknown(transport: RedisTransport, requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    return this.#sendCall(transport, requests).catch((error: unknown) => unknown(requests, error))
  }

  /**
   * Whether to send the requests again, each key in a call of its own, as the keys lie on two nodes. If the call timed
   * out, the client library may have retried it for as long: then only the next send is divided.
   */
  #mustDivide(requests: readonly Request[], error: unknown): boolean {
    const [first] = requests.map((request) => keyOf(request))
    if (first === undefined || requests.every((request) => keyOf(request) === first)) return false
    const refused = isSlotMigrating(error)
    if (refused || isTimedOut(error)) this.#migrating.note(hashTagOf(first))
    return refused
  }

  // ---- notifications

  #onNotification(message: string): void {
    const notification = decodeNotification(message)
    if (notification !== undefined) this.#listeners.notify(notification.key, notification.id, notification.status)
  }
}

/** What becomes of one call: its statuses, or those of the calls that it had to be divided into. */
type SendResult = readonly ClaimStatus[] | Promise<readonly ClaimStatus[]>
type Unknown = Extract<ClaimStatus, { state: 'unknown' }>

function unknown(requests: readonly Request[], error: unknown): readonly Unknown[] {
  return requests.map((): Unknown => ({ state: 'unknown', error }))
}

function isUnknown(status: ClaimStatus): status is Unknown {
  return status.state === 'unknown'
}

/** Tells clients apart by their members, as no client library is imported. */
function transportOver(client: RedisClient): RedisTransport {
  if ('call' in client) return new IoredisTransport(client, false)
  return 'masters' in client ? new NodeRedisClusterTransport(client, false) : new NodeRedisTransport(client)
}
