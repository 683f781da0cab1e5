/**
 * Locks of a Leasehold server: any store, for those who cannot or may not reach it directly.
 *
 * A `send` is one call, and the server carries it out together with what others ask for at the same time. News comes as
 * server-sent events, over a connection of its own.
 */
import type {
  OnNotification,
  KeyPage,
  ListQuery,
  LockDriver,
  Request,
  ClaimStatus,
  Supports,
} from '../../core/contract/driver.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { fullSupport, requireLeaseLifetime } from '../../core/contract/supports.ts'
import { withinLimits } from '../../core/contract/limits.ts'
import { Listeners } from '../kit/listeners.ts'
import { environmentVariable } from '../../core/machine/runtime.ts'
import { SingleFlight } from '../../core/time/single-flight.ts'
import { checkOptions, type OptionNames } from '../../core/contract/option-names.ts'
import { pageLimit } from '../kit/paging.ts'
import { randomIds } from '../../core/machine/random-id.ts'
import { timerMs } from '../../core/time/duration.ts'
import { sendTimeoutFor } from '../../core/contract/requests.ts'
import { WaitingClaims } from '../kit/waiting-claims.ts'
import {
  knownHeader,
  protocolVersion,
  sessionHeader,
  pageIn,
  statusesIn,
  storeIn,
  type StoreReply,
} from '../../core/wire/replies.ts'
import { parseAddress } from './address.ts'
import type { Fetch } from './fetch-transport.ts'
import { bodiesOf, type Body, Line, type CallOptions } from './line.ts'
import { closed, refusalIn, senseless, Unsent } from './faults.ts'
import { NotificationStream } from './notification-stream.ts'

/** The options of `http`. */
export interface HttpOptions {
  /** `http(s)://[TOKEN@]HOST[:PORT][/PATH]` */
  readonly url: string
  /**
   * What the server knows us by.
   *
   * @default the one in the URL, else the variable LEASEHOLD_TOKEN
   */
  readonly token?: string | undefined
  /**
   * Whom to trust for the server's certificate, as PEM. Not where `fetch` is used.
   *
   * @default those whom Node trusts
   */
  readonly ca?: string | Uint8Array | undefined
  /**
   * What to call the server with: a binding of a Cloudflare Worker, or a `fetch` that adds something.
   *
   * @default connections of our own where there is `node:http`, else the global `fetch`
   */
  readonly fetch?: Fetch | undefined
  /**
   * The longest to wait for an answer before its outcome counts as unknown; a third of a ttl at most.
   *
   * @default 5000, longer where the store behind the server is slow
   */
  readonly answerWithinMs?: number | undefined
}

const httpNames: OptionNames<HttpOptions> = { url: true, token: true, ca: true, fetch: true, answerWithinMs: true }

const answerWithinDefaultMs = 5000
/** Whatever the server says of its store. */
const answerWithinMostMs = 120_000
const idLengthMax = 1024

/**
 * The lock store behind a Leasehold server, out of a URL or options.
 *
 * @example
 * ```ts
 * import { createLocks } from 'leasehold'
 * import { http } from 'leasehold/http'
 *
 * await using locks = await createLocks({ driver: http('https://locks.example.com') })
 * ```
 */
export function http(from: string | HttpOptions): LockDriver {
  if (typeof from === 'string') return new HttpDriver({ url: from })
  checkOptions(from, httpNames, 'http')
  return new HttpDriver(from)
}

/** What the server said of its store, and the digest that goes with every answer until that changes. */
interface DescribedStore extends StoreReply {
  readonly digest: string | undefined
}

class HttpDriver implements LockDriver {
  readonly name = 'http'
  /** Of the store, once it has been asked; until then the most there can be. */
  supports: Supports = fullSupport
  /** There is one if the store pushes. */
  listen?: (onNotification: OnNotification) => Disposable
  readonly #line: Line
  readonly #answerWithinMs: number | undefined
  readonly #session = randomIds(1)()
  readonly #listeners = new Listeners()
  readonly #waiting = new WaitingClaims()
  readonly #opening = new SingleFlight(() => this.#open())
  #store: DescribedStore | undefined
  #notifications: NotificationStream | undefined
  #closed = false

  constructor({ url, token, ca, fetch, answerWithinMs }: HttpOptions) {
    const fromVariable = environmentVariable('LEASEHOLD_TOKEN') || undefined
    this.#line = new Line(parseAddress(url, token, fromVariable), { ca, fetch })
    this.#answerWithinMs = answerWithinMs === undefined ? undefined : timerMs(answerWithinMs, 'answerWithinMs')
  }

  async open(): Promise<void> {
    await this.#opened()
  }

  async send(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    // What the store supports is known once it is open.
    if (this.#store === undefined) await this.#opened()
    return withinLimits(this.supports, requests, (valid) => this.#sendValid(valid))
  }

  async #sendValid(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    const store = this.#store ?? (await this.#opened())
    this.#refuseIfClosed()
    if (requests.length === 0) return []
    const withinMs = sendTimeoutFor(requests, this.#sendTimeoutMs)
    const statuses: ClaimStatus[] = []
    for (const body of bodiesOf(requests, store.requestsPerCallMax, store.bodyBytesMax)) {
      try {
        statuses.push(...(await this.#sendBody(body, withinMs)))
      } catch (error) {
        // If some of it was carried out, the rest is not known to be.
        const fault = error instanceof Unsent ? error.fault : error
        // Another server with smaller limits may have taken its place: it is asked for them before the next call.
        if (fault instanceof LeaseholdError && fault.code === 'INVALID') this.#store = undefined
        if (error instanceof Unsent && statuses.length === 0) throw fault
        while (statuses.length < requests.length) statuses.push({ state: 'unknown', error: fault })
        break
      }
    }
    this.#waiting.note(requests, statuses)
    return statuses
  }

  async list({ key, prefix, after, limit, known }: ListQuery): Promise<KeyPage> {
    this.#refuseIfClosed()
    const query = new URLSearchParams()
    for (const [name, value] of Object.entries({ key, prefix, after })) if (value !== undefined) query.set(name, value)
    if (limit !== undefined) query.set('limit', String(pageLimit({ limit })))
    const headers = known === undefined || !isPossibleId(known) ? {} : { [knownHeader]: encodeURIComponent(known) }
    const [page] = await this.#ask(`/v1/keys?${query.toString()}`, pageIn, { headers })
    return page
  }

  async dataAgeMs(): Promise<number> {
    this.#refuseIfClosed()
    const { dataAgeMs } = this.#accepted(await this.#ask('/v1/store', storeIn))
    if (dataAgeMs !== undefined) return dataAgeMs
    const message = `The store behind ${this.#line.where} does not say for how long it has kept its data.`
    throw new LeaseholdError('UNSUPPORTED', message)
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#listeners.clear()
    this.#waiting.clear()
    this.#notifications?.close()
    this.#line.close()
    // Whoever was opening meanwhile finds the driver closed.
    await this.#opening.settled()
  }

  // ---- the server

  async #opened(): Promise<DescribedStore> {
    this.#refuseIfClosed()
    return this.#store ?? this.#opening.opened()
  }

  async #open(): Promise<DescribedStore> {
    const store = this.#accepted(await this.#ask('/v1/store', storeIn))
    this.#refuseIfClosed()
    if (store.supports.push) {
      this.listen = (onNotification) => this.#listeners.listen(onNotification)
      await this.#startNotifications()
    }
    this.#refuseIfClosed()
    this.#store = store
    return store
  }

  /** Refuses a store that cannot be used over HTTP, and notes what it supports. Another server may have taken the place of the one before. */
  #accepted([store, digest]: [StoreReply, string | undefined]): DescribedStore {
    if (store.protocol !== protocolVersion) throw otherVersion(this.#line.where, store.protocol)
    try {
      requireLeaseLifetime(store, `The server at ${this.#line.where}`)
    } catch (error) {
      this.#store = undefined
      throw error
    }
    // The same object as long as nothing changed: compositions look at nothing else.
    if (JSON.stringify(this.supports) !== JSON.stringify(store.supports)) this.supports = store.supports
    return { ...store, digest }
  }

  /** Before the first claim, so that no news of it is lost. */
  async #startNotifications(): Promise<void> {
    if (this.#notifications !== undefined) return
    this.#notifications = new NotificationStream(this.#line, this.#session, {
      onNotification: (key, id, notifications) => {
        if (notifications !== 'poll') this.#waiting.delete(id)
        this.#listeners.notify(key, id, notifications)
      },
      onGap: () => {
        for (const [id, key] of this.#waiting) this.#listeners.notify(key, id, 'poll')
      },
    })
    await this.#notifications.start()
  }

  // ---- calls

  async #sendBody({ requests, text }: Body, withinMs: number): Promise<readonly ClaimStatus[]> {
    const headers = { [sessionHeader]: this.#session }
    const reply = await this.#line.call('POST', '/v1/requests', { headers, body: text, withinMs })
    if (reply.status !== 200) throw refusalIn(reply, this.#line.where)
    await this.#sameStore(reply.store)
    const statuses = statusesIn(reply.value, requests.length)
    if (statuses === undefined) throw senseless(this.#line.where, 'something that is no status for each request')
    return statuses
  }

  /** An answer of a server that says something else of its store than was known counts only once that has been read, and accepted. */
  async #sameStore(digest: string | undefined): Promise<void> {
    if (digest === undefined || digest === this.#store?.digest) return
    this.#store = undefined
    await this.#opened()
  }

  /** Asks for something that changes nothing, so that it is the same whether it was sent or not. */
  async #ask<Found>(
    path: string,
    read: (value: unknown) => Found | undefined,
    options: Omit<CallOptions, 'withinMs'> = {},
  ): Promise<[Found, string | undefined]> {
    try {
      const reply = await this.#line.call('GET', path, { ...options, withinMs: this.#sendTimeoutMs })
      if (reply.status !== 200) throw refusalIn(reply, this.#line.where)
      const found = read(reply.value)
      if (found === undefined) throw senseless(this.#line.where, 'something else than was asked for')
      return [found, reply.store]
    } catch (error) {
      this.#refuseIfClosed()
      throw error instanceof Unsent ? error.fault : error
    }
  }

  /** A store with a long lease of its own is one that takes long to answer. */
  get #sendTimeoutMs(): number {
    const slowMs = Math.min(answerWithinMostMs, (this.supports.ttlDefaultMs ?? 0) / 10)
    return this.#answerWithinMs ?? Math.max(answerWithinDefaultMs, slowMs)
  }

  #refuseIfClosed(): void {
    if (this.#closed) throw closed(this.#line.where)
  }
}

/** Somebody may have been handed anything for an id: what no server takes, none has. */
function isPossibleId(id: string): boolean {
  return id.length <= idLengthMax && id.isWellFormed()
}

function otherVersion(where: string, protocol: number): LeaseholdError {
  const message = `The server at ${where} speaks version ${protocol} of the protocol, this client ${protocolVersion}.`
  return new LeaseholdError('UNAVAILABLE', `${message} Use the same version of Leasehold.`, { reason: 'newer-format' })
}
