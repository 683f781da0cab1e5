/**
 * Locks in Redis or Valkey, alone, behind Sentinel, or a Cluster.
 *
 * A whole batch is one call of a Lua script that runs the rule of `admission.ts` beside the data, by the server's clock.
 * News goes to the channel of the client that owns the claim.
 */
import { randomBytes } from 'node:crypto'
import { keyOf, sendTimeoutFor } from '../../core/contract/requests.ts'
import { inTime } from '../../core/time/bounded.ts'
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
import { checkOptions, type OptionNames } from '../../core/contract/option-names.ts'
import { timerMs } from '../../core/time/duration.ts'
import { parseAddress } from './address.ts'
import { callsOf, isOneCall, type Call, MigratingSlots } from './calls.ts'
import { readDataAge, scriptsFor } from './script.ts'
import { decodeNotification, decodeReply, decodeSolo, openReply } from './decoding.ts'
import { dial } from './dial.ts'
import { encodeBatch, encodeSolo, type Sender } from './encoding.ts'
import { faultOf, isHalfMoved, isTimedOut, isReadOnly, isUnknownScript, isUnsent, timedOut } from './faults.ts'
import { hashTagOf } from './hash-tags.ts'
import { IoredisTransport, type IoredisClient } from './ioredis.ts'
import { Keyspace } from './keyspace.ts'
import type { RedisTransport } from './transport.ts'
import { listPage } from './listing.ts'
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

/** The options of `redis`. */
export interface RedisOptions {
  /**
   * `redis://user:password@host:6379/0`, `rediss://…`, `redis+unix:///path` or `redis-cluster://host:6379,host:6379`.
   *
   * @default 'redis://127.0.0.1'
   */
  readonly url?: string | undefined
  /** A client to use instead of a URL. It stays yours: closing the driver leaves it open. */
  readonly client?: RedisClient | undefined
  /**
   * Begins every name in Redis.
   *
   * @default 'leasehold:'
   */
  readonly prefix?: string | undefined
  /**
   * The longest to wait for a reply before its outcome counts as unknown; a third of a ttl at most.
   *
   * @default 5000
   */
  readonly commandTimeoutMs?: number | undefined
  /** The store's time in milliseconds, for tests that move it. All drivers of one store must share it. */
  readonly clockForTests?: (() => number) | undefined
}

const redisNames: OptionNames<RedisOptions> = {
  url: true,
  client: true,
  prefix: true,
  commandTimeoutMs: true,
  clockForTests: true,
}

const commandTimeoutDefaultMs = 5000

/**
 * A lock store in Redis, out of a URL, a client, or options.
 *
 * @example
 * ```ts
 * import { createLocks } from 'leasehold'
 * import { redis } from 'leasehold/redis'
 * import { Redis } from 'ioredis'
 *
 * const client = new Redis()
 * await using locks = await createLocks({ driver: redis(client) })
 * ```
 */
export function redis(from: string | RedisClient | RedisOptions = {}): LockDriver {
  if (typeof from === 'string') return new RedisDriver({ url: from })
  if ('call' in from || 'sendCommand' in from) return new RedisDriver({ client: from })
  checkOptions(from, redisNames, 'redis')
  return new RedisDriver(from)
}

class RedisDriver implements LockDriver {
  readonly name = 'redis'
  readonly supports = fullSupport
  readonly #options: RedisOptions
  readonly #sender: Sender
  readonly #commandTimeoutMs: number
  readonly #listeners = new Listeners()
  readonly #opening = new SingleFlight(() => this.#connect())
  readonly #halfMoved = new MigratingSlots()
  #transport: RedisTransport | undefined
  /** The link that is being opened. */
  #dialled: RedisTransport | undefined
  /** Whether somebody wants to know how old the data is: then each call of claims is followed by that question. */
  #asksAge = false
  /** The answer to the question that followed the last call. */
  #dataAge: Promise<number> | undefined
  #closed = false

  constructor(options: RedisOptions) {
    // A wrong address is told at once, not when it is used.
    if (options.client === undefined && options.url !== undefined) parseAddress(options.url)
    const keyspace = new Keyspace(options.prefix ?? 'leasehold:')
    const channel = keyspace.channel(randomBytes(9).toString('base64url'))
    this.#options = options
    this.#sender = { keyspace, channel, clock: options.clockForTests }
    this.#commandTimeoutMs = timerMs(options.commandTimeoutMs ?? commandTimeoutDefaultMs, 'commandTimeoutMs')
  }

  async open(): Promise<void> {
    await this.#connected()
  }

  send(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    return withinLimits(this.supports, requests, (valid) => this.#sendValid(valid))
  }

  #sendValid(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    const transport = this.#transport
    return transport === undefined ? this.#sendOnceConnected(requests) : this.#sendOver(transport, requests)
  }

  async list(query: ListQuery): Promise<KeyPage> {
    const transport = await this.#connected()
    const { keyspace, clock } = this.#sender
    // Each step in time, not the page: a walk takes as long as there are keys of any kind.
    const stepMs = this.#commandTimeoutMs
    try {
      return await listPage({ transport, keyspace, clock, stepMs }, query)
    } catch (error) {
      throw faultOf(error)
    }
  }

  listen(onNotification: OnNotification, onGap?: OnGap): Disposable {
    return this.#listeners.listen(onNotification, onGap)
  }

  async dataAgeMs(): Promise<number> {
    const transport = await this.#connected()
    this.#asksAge = true
    const asked = this.#dataAge
    this.#dataAge = undefined
    try {
      return await (asked ?? readDataAge(transport, this.#sender.keyspace, this.#commandTimeoutMs))
    } catch (error) {
      throw faultOf(error)
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#listeners.clear()
    const transport = this.#transport
    this.#transport = undefined
    await this.#dialled?.close()
    await transport?.close()
    // Whoever was opening meanwhile finds the driver closed, and lets go of what it opened.
    await this.#opening.settled()
  }

  // ---- the connection

  async #connected(): Promise<RedisTransport> {
    this.#refuseIfClosed()
    if (this.#transport !== undefined) return this.#transport
    return this.#opening.opened()
  }

  async #connect(): Promise<RedisTransport> {
    const { client, url } = this.#options
    const transport =
      client === undefined ? await dial(parseAddress(url ?? 'redis://127.0.0.1')) : transportOver(client)
    this.#dialled = transport
    try {
      await inTime(this.#commandTimeoutMs, this.#prepare(transport), timedOut)
      this.#refuseIfClosed()
    } catch (error) {
      await transport.close()
      this.#refuseIfClosed()
      throw faultOf(error)
    } finally {
      this.#dialled = undefined
    }
    this.#transport = transport
    return transport
  }

  async #prepare(transport: RedisTransport): Promise<void> {
    const withinMs = this.#commandTimeoutMs
    this.#refuseIfClosed()
    await transport.open(withinMs)
    const onMessage = (message: string): void => this.#onNotification(message)
    const onGap = (): void => this.#listeners.gap()
    await transport.subscribe(this.#sender.channel, { onMessage, onGap }, withinMs)
  }

  // ---- requests

  async #sendOnceConnected(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    const transport = await this.#connected()
    this.#refuseIfClosed()
    return this.#sendOver(transport, requests)
  }

  #sendOver(transport: RedisTransport, requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    return isOneCall(requests, transport.cluster)
      ? this.#sendCall(transport, requests)
      : this.#sendCalls(transport, requests)
  }

  /** One call. Few promises from here to the connection: for one lock by itself they take longer than the rest. */
  #sendCall(transport: RedisTransport, requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    const scripts = scriptsFor(transport)
    const solo = requests.length === 1 ? encodeSolo(requests[0] as Request, this.#sender) : undefined
    const script = solo === undefined ? scripts.batch : scripts.solo
    const { keys, values } = solo ?? encodeBatch(requests, this.#sender)
    const args = [script.sha, String(keys.length), ...keys, ...values]
    const timeoutMs = sendTimeoutFor(requests, this.#commandTimeoutMs)
    const answered = (reply: unknown): Answers => this.#answers(transport, requests, reply, solo !== undefined)
    const failed = (error: unknown): Answers => this.#failed(transport, requests, error)
    const called = transport.call('EVALSHA', args, keys[0], timeoutMs).then(answered, (error: unknown) => {
      if (!isUnknownScript(error)) return failed(error)
      // Asked too early: nothing has been carried out yet.
      this.#dataAge = undefined
      return transport.call('EVAL', args.with(0, script.text), keys[0], timeoutMs).then(answered, failed)
    })
    if (this.#asksAge) this.#askAge(transport, requests)
    return called
  }

  /** Asks for the age of the data right behind a call, over the same connection: the answer is no older than the call's. */
  #askAge(transport: RedisTransport, requests: readonly Request[]): void {
    this.#dataAge = undefined
    if (transport.cluster || requests.every(({ op }) => op !== 'claim')) return
    this.#dataAge = readDataAge(transport, this.#sender.keyspace, this.#commandTimeoutMs)
    // Whoever asks hears of it.
    this.#dataAge.catch(() => {})
  }

  #answers(transport: RedisTransport, requests: readonly Request[], reply: unknown, solo: boolean): Answers {
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

  #failed(transport: RedisTransport, requests: readonly Request[], error: unknown): Answers {
    if (transport.cluster && this.#mayBeHalfMoved(requests, error)) return this.#sendCalls(transport, requests)
    if (isReadOnly(error)) transport.renew()
    const fault = faultOf(error)
    if (isUnsent(error)) throw fault
    return this.#unknown(requests, fault)
  }

  #unknown(requests: readonly Request[], error: unknown): readonly Unknown[] {
    return requests.map((): Unknown => ({ state: 'unknown', error }))
  }

  /** Several calls. What could not be sent is unknown: others were. */
  async #sendCalls(transport: RedisTransport, requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    const answers: ClaimStatus[] = []
    const sendInTurn = async (calls: readonly Call[]): Promise<void> => {
      let failure: unknown
      for (const places of calls) {
        const batch = places.map((place) => requests[place] as Request)
        // After one that failed the next would only wait as long again.
        const statuses =
          failure === undefined ? await this.#sendOrUnknown(transport, batch) : this.#unknown(batch, failure)
        for (const [index, place] of places.entries()) answers[place] = statuses[index] as ClaimStatus
        if (statuses.every(isUnknown)) failure = statuses[0]?.error
      }
    }
    await Promise.all(callsOf(requests, transport.cluster, this.#halfMoved).map(sendInTurn))
    return answers
  }

  #sendOrUnknown(transport: RedisTransport, requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    return this.#sendCall(transport, requests).catch((error: unknown) => this.#unknown(requests, error))
  }

  /**
   * Whether to send the keys of a call again, each alone, as they are on two nodes. A client library that tries again
   * by itself may also let the time run out: then they go alone the next time.
   */
  #mayBeHalfMoved(requests: readonly Request[], error: unknown): boolean {
    const [first] = requests.map((request) => keyOf(request))
    if (first === undefined || requests.every((request) => keyOf(request) === first)) return false
    const refused = isHalfMoved(error)
    if (refused || isTimedOut(error)) this.#halfMoved.note(hashTagOf(first))
    return refused
  }

  // ---- news

  #onNotification(message: string): void {
    const notifications = decodeNotification(message)
    if (notifications === undefined) return
    this.#listeners.notify(notifications.key, notifications.id, notifications.status)
  }

  #refuseIfClosed(): void {
    if (this.#closed) throw new LeaseholdError('CLOSED', 'This Redis store has been closed.')
  }
}

type Answers = readonly ClaimStatus[] | Promise<readonly ClaimStatus[]>
type Unknown = Extract<ClaimStatus, { state: 'unknown' }>

function isUnknown(status: ClaimStatus): status is Unknown {
  return status.state === 'unknown'
}

/** Clients are told apart by what they have: nothing of theirs is imported. */
function transportOver(client: RedisClient): RedisTransport {
  if ('call' in client) return new IoredisTransport(client, false)
  return 'masters' in client ? new NodeRedisClusterTransport(client, false) : new NodeRedisTransport(client)
}
