/**
 * Locks of a Leasehold server: any store, for those who cannot or may not reach it directly.
 *
 * A `send` is one call, which the server carries out together with the requests of other clients. Notifications come as
 * server-sent events, over a connection of their own.
 */
import type { KeyPage, ListQuery, LockDriver, Request, ClaimStatus, Supports } from '../../core/contract/driver.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { fullSupport, requireLeaseLifetime } from '../../core/contract/supports.ts'
import { withinLimits } from '../../core/contract/limits.ts'
import { Listeners } from '../kit/listeners.ts'
import { environmentVariable } from '../../core/machine/runtime.ts'
import { Lifecycle } from '../kit/lifecycle.ts'
import { checkOptions, type OptionNames } from '../../core/contract/option-names.ts'
import { claimsLimit, pageLimit } from '../kit/paging.ts'
import { randomIds } from '../../core/machine/random-id.ts'
import { timerMs } from '../../core/time/duration.ts'
import { sendTimeoutFor } from '../../core/contract/requests.ts'
import {
  knownHeader,
  protocolVersion,
  sessionHeader,
  pageIn,
  statusesIn,
  storeIn,
  type StoreReply,
} from '../../core/wire/replies.ts'
import { parseServerUrl } from './address.ts'
import type { Fetch } from './fetch-transport.ts'
import { bodiesOf, type RequestBody, ServerClient, type CallOptions } from './server-client.ts'
import { refusalIn, meaningless, Unsent } from './faults.ts'
import { ServerEventStream } from './event-stream.ts'

/** The options of `http`. */
export interface HttpOptions {
  /** `http(s)://[TOKEN@]HOST[:PORT][/PATH]` */
  readonly url: string
  /**
   * The token by which the server knows this client.
   *
   * @default the one in the URL, else the variable LEASEHOLD_TOKEN
   */
  readonly token?: string | undefined
  /**
   * The authorities to trust for the server's certificate, as PEM. Not where `fetch` is used.
   *
   * @default those that Node trusts
   */
  readonly ca?: string | Uint8Array | undefined
  /**
   * A client certificate for servers that ask for one, and its key, as PEM. Not where `fetch` is used.
   *
   * @default none
   */
  readonly cert?: string | Uint8Array | undefined
  readonly key?: string | Uint8Array | undefined
  /**
   * The `fetch` to call the server with: the binding of a Cloudflare Worker, or one that adds headers.
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

const httpNames: OptionNames<HttpOptions> = {
  url: true,
  token: true,
  ca: true,
  cert: true,
  key: true,
  fetch: true,
  answerWithinMs: true,
}

const answerWithinDefaultMs = 5000
/** The longest timeout, whatever the server says of its store. */
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

/** The server's description of its store, and its digest, which every answer carries. */
interface DescribedStore extends StoreReply {
  readonly digest: string | undefined
}

class HttpDriver implements LockDriver {
  readonly name = 'http'
  /** What the store behind the server supports, once the server was asked; everything until then. */
  supports: Supports = fullSupport
  /** Present once the store is known to push. */
  listen?: NonNullable<LockDriver['listen']>
  readonly #client: ServerClient
  readonly #answerWithinMs: number | undefined
  readonly #session = randomIds(1)()
  readonly #listeners = new Listeners()
  readonly #lifecycle: Lifecycle<DescribedStore>
  #notifications: ServerEventStream | undefined

  constructor({ url, token, ca, cert, key, fetch, answerWithinMs }: HttpOptions) {
    const fromVariable = environmentVariable('LEASEHOLD_TOKEN') || undefined
    this.#client = new ServerClient(parseServerUrl(url, token, fromVariable), { ca, cert, key, fetch })
    this.#lifecycle = new Lifecycle(`The connection to ${this.#client.where}`, () => this.#open())
    this.#answerWithinMs = answerWithinMs === undefined ? undefined : timerMs(answerWithinMs, 'answerWithinMs')
  }

  async open(): Promise<void> {
    await this.#lifecycle.opened()
  }

  async send(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    // What the store supports is known once it is open.
    if (this.#lifecycle.current === undefined) await this.#lifecycle.opened()
    return withinLimits(this.supports, requests, (valid) => this.#sendValid(valid))
  }

  async #sendValid(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    const store = this.#lifecycle.current ?? (await this.#lifecycle.opened())
    this.#lifecycle.refuseIfShut()
    if (requests.length === 0) return []
    const withinMs = sendTimeoutFor(requests, this.#sendTimeoutMs)
    const statuses: ClaimStatus[] = []
    for (const body of bodiesOf(requests, store.requestsPerCallMax, store.bodyBytesMax)) {
      try {
        statuses.push(...(await this.#sendBody(body, withinMs)))
      } catch (error) {
        // Once a part was carried out, the outcome of the rest is unknown.
        const fault = error instanceof Unsent ? error.fault : error
        // Another server, with smaller limits, may have taken its place: ask it for them before the next call.
        if (fault instanceof LeaseholdError && fault.code === 'INVALID') this.#lifecycle.forget(store)
        if (error instanceof Unsent && statuses.length === 0) throw fault
        while (statuses.length < requests.length) statuses.push({ state: 'unknown', error: fault })
        break
      }
    }
    return statuses
  }

  async list({ key, prefix, after, limit, claims, known }: ListQuery): Promise<KeyPage> {
    this.#lifecycle.refuseIfShut()
    const query = new URLSearchParams()
    for (const [name, value] of Object.entries({ key, prefix, after })) if (value !== undefined) query.set(name, value)
    if (limit !== undefined) query.set('limit', String(pageLimit({ limit })))
    if (claims !== undefined) query.set('claims', String(claimsLimit({ claims })))
    const headers = known === undefined || !isPossibleId(known) ? {} : { [knownHeader]: encodeURIComponent(known) }
    const [page] = await this.#ask(`/v1/keys?${query.toString()}`, pageIn, { headers })
    return page
  }

  async dataAgeMs(): Promise<number> {
    this.#lifecycle.refuseIfShut()
    const { dataAgeMs } = this.#accepted(await this.#ask('/v1/store', storeIn))
    if (dataAgeMs !== undefined) return dataAgeMs
    const message = `The store behind ${this.#client.where} does not say for how long it has kept its data.`
    throw new LeaseholdError('UNSUPPORTED', message)
  }

  async close(): Promise<void> {
    this.#lifecycle.shut()
    this.#listeners.clear()
    this.#notifications?.close()
    this.#client.close()
    await this.#lifecycle.settled()
  }

  // ---- the server

  async #open(): Promise<DescribedStore> {
    const store = this.#accepted(await this.#ask('/v1/store', storeIn))
    this.#lifecycle.refuseIfShut()
    if (store.supports.push) {
      this.listen = (onNotification, onGap) => this.#listeners.listen(onNotification, onGap)
      await this.#startNotifications()
    }
    return store
  }

  /** Refuses a store that cannot be used over HTTP, and notes what it supports: another server may answer at the same address now. */
  #accepted([store, digest]: [StoreReply, string | undefined]): DescribedStore {
    if (store.protocol !== protocolVersion) throw otherVersion(this.#client.where, store.protocol)
    try {
      requireLeaseLifetime(store, `The server at ${this.#client.where}`)
    } catch (error) {
      const before = this.#lifecycle.current
      if (before !== undefined) this.#lifecycle.forget(before)
      throw error
    }
    // The same object as long as nothing changed: compositions look at nothing else.
    if (JSON.stringify(this.supports) !== JSON.stringify(store.supports)) this.supports = store.supports
    return { ...store, digest }
  }

  /** Runs before the first claim is sent, so that none of its notifications is lost. */
  async #startNotifications(): Promise<void> {
    if (this.#notifications !== undefined) return
    this.#notifications = new ServerEventStream(this.#client, this.#session, {
      onNotification: (key, id, notification) => this.#listeners.notify(key, id, notification),
      onGap: () => this.#listeners.gap(),
    })
    await this.#notifications.start()
  }

  // ---- calls

  async #sendBody({ requests, text }: RequestBody, withinMs: number): Promise<readonly ClaimStatus[]> {
    const headers = { [sessionHeader]: this.#session }
    const reply = await this.#client.call('POST', '/v1/requests', { headers, body: text, withinMs })
    if (reply.status !== 200) throw refusalIn(reply, this.#client.where)
    await this.#sameStore(reply.store)
    const statuses = statusesIn(reply.value, requests.length)
    if (statuses === undefined) throw meaningless(this.#client.where, 'something that is no status for each request')
    return statuses
  }

  /** If the server describes its store differently than before, its answer counts only once that description is read and accepted. */
  async #sameStore(digest: string | undefined): Promise<void> {
    const store = this.#lifecycle.current
    if (digest === undefined || digest === store?.digest) return
    if (store !== undefined) this.#lifecycle.forget(store)
    await this.#lifecycle.opened()
  }

  /** A call that changes nothing: whether it was sent does not matter. */
  async #ask<Found>(
    path: string,
    read: (value: unknown) => Found | undefined,
    options: Omit<CallOptions, 'withinMs'> = {},
  ): Promise<[Found, string | undefined]> {
    try {
      const reply = await this.#client.call('GET', path, { ...options, withinMs: this.#sendTimeoutMs })
      if (reply.status !== 200) throw refusalIn(reply, this.#client.where)
      const found = read(reply.value)
      if (found === undefined) throw meaningless(this.#client.where, 'something else than was asked for')
      return [found, reply.store]
    } catch (error) {
      this.#lifecycle.refuseIfShut()
      throw error instanceof Unsent ? error.fault : error
    }
  }

  /** A store whose default lease is long takes long to answer. */
  get #sendTimeoutMs(): number {
    const slowMs = Math.min(answerWithinMostMs, (this.supports.ttlDefaultMs ?? 0) / 10)
    return this.#answerWithinMs ?? Math.max(answerWithinDefaultMs, slowMs)
  }
}

/** An id that no server accepts is the id of no claim. */
function isPossibleId(id: string): boolean {
  return id.length <= idLengthMax && id.isWellFormed()
}

function otherVersion(where: string, protocol: number): LeaseholdError {
  const message = `The server at ${where} speaks version ${protocol} of the protocol, this client ${protocolVersion}.`
  return new LeaseholdError('UNAVAILABLE', `${message} Use the same version of Leasehold.`, { reason: 'newer-format' })
}
