/** One document a key in a KV bucket of JetStream. The sequence number of a key's last message is what a swap compares. */
import { utf8Length } from '../../core/contract/bounds.ts'
import type { ListQuery, Supports } from '../../core/contract/driver.ts'
import { LeaseholdError, plainMessageOf } from '../../core/errors.ts'
import { CallSemaphore } from '../kit/call-semaphore.ts'
import { CallTimedOut, withTimeout } from '../kit/call-timeout.ts'
import { Lifecycle } from '../kit/lifecycle.ts'
import type {
  ClocklessPolling,
  ClocklessStore,
  LoadedObserved,
  NotifiedOwner,
  ObservedOutcome,
  SwapObserved,
} from '../document/observed/clockless-store.ts'
import { documentBytesMaxOf, type ObservedDocument } from '../document/observed/observed-document.ts'
import {
  bucketInfo,
  bucketWarnings,
  openBucket,
  refuseReplicas,
  refuseUnsafe,
  type BucketWish,
  type StreamInfo,
} from './bucket.ts'
import type { NatsConnectionLike } from './client.ts'
import { apiCode, isNatsRefusal, isStreamMissing, JetStreamRefusal, natsError } from './errors.ts'
import { JetStreamApi, type StreamMessage } from './jetstream-api.ts'
import { keyOfToken, tokenOfKey } from './keys.ts'
import { bucketPage } from './listing.ts'
import { Notifications } from './notifications.ts'
import { idleKeptMs, sweepBucket } from './sweep.ts'

/** What a swap compares. */
export interface NatsRevision {
  /** The sequence number of the key's last message; 0: there is none. */
  readonly seq: number
  /** When it was read or written, by the clock of this process. */
  readonly at: number
}

export interface NatsStoreSetup extends BucketWish {
  readonly supports: Supports
  readonly timeoutMs: number
  readonly polling: ClocklessPolling
  /** A connection that stays its owner's, or the way to one of our own. */
  readonly source: NatsConnectionLike | (() => Promise<NatsConnectionLike>)
}

interface Session {
  readonly connection: NatsConnectionLike
  readonly api: JetStreamApi
  bucket: BucketState
  readonly notifications: Notifications
}

/** What was last seen of the bucket. */
interface BucketState {
  readonly takesTtls: boolean
  /** When that was, by the clock of this process. */
  readonly at: number
  /** What the server's clock said then; NaN: unknown. */
  readonly serverMs: number
  /** Why locks are not safe there any more. */
  readonly refusal: LeaseholdError | undefined
}

/** Calls under way at a time: a server drops calls beyond some thousands. */
const callsMax = 256
/**
 * A stream that was restored or made anew counts its messages from an earlier number again. A swap that was held up for as long as
 * that takes, by a process that stood still, must not be sent.
 */
const revisionLastsMs = 1000
/** What a message has beside its document. */
const headerBytesMax = 512
/** After so long without an answer a ping is sent, which may take as long. */
const silentMs = 1000
const closeMs = 2000
/** A bucket is looked at again after so long: somebody may have changed it, or made it anew. */
const bucketCheckMs = 5000
const checkTimeoutMs = 1000
/** Idle documents written between two sweeps, where the server does not remove them by itself. */
const idlePerSweep = 500

/** A document that `decodeKey` refuses as damaged. */
const damaged = { version: 1, lastFence: Number.NaN, claims: [], nonce: '' } satisfies ObservedDocument

export class NatsStore implements ClocklessStore<NatsRevision> {
  readonly clock = 'none'
  readonly name = 'nats'
  readonly supports: Supports
  readonly polling: ClocklessPolling
  readonly sendTimeoutMs: number
  readonly absentRevision: NatsRevision = { seq: 0, at: Infinity }
  warnings: readonly string[] = []
  readonly #setup: NatsStoreSetup
  readonly #calls = new CallSemaphore(callsMax)
  readonly #lifecycle = new Lifecycle<Session>(
    'This NATS store',
    () => this.#open(),
    (session) => this.#end(session),
  )
  #listener:
    | { readonly channel: string; readonly onNotified: (claim: NotifiedOwner) => void; readonly onGap: () => void }
    | undefined
  #sweeping: Promise<void> | undefined
  #mending: Promise<void> | undefined
  #checking: Promise<void> | undefined
  #idleWrites = 0

  constructor(setup: NatsStoreSetup) {
    this.#setup = setup
    this.supports = setup.supports
    this.polling = setup.polling
    this.sendTimeoutMs = setup.timeoutMs
  }

  async open(): Promise<void> {
    const { api } = await this.#session()
    // Not waited for: a lock needs no swept bucket.
    this.#sweep(api)
  }

  async close(): Promise<void> {
    const session = this.#lifecycle.shut()
    await this.#lifecycle.settled()
    if (session !== undefined) await this.#end(session)
    await Promise.all([this.#sweeping, this.#mending, this.#checking])
  }

  async load(keys: readonly string[], withinMs?: number): Promise<readonly LoadedObserved<NatsRevision>[]> {
    return this.#during(async (session) => {
      const { api } = this.#safe(session)
      const messages = await this.#each(keys, withinMs, (key, leftMs) =>
        api.message(this.#stream, { last_by_subj: this.#subject(key) }, leftMs),
      )
      const at = performance.now()
      return messages.map((message) => ({ document: documentOf(message), revision: { seq: message?.seq ?? 0, at } }))
    })
  }

  async swap(
    swaps: readonly SwapObserved<NatsRevision>[],
    withinMs?: number,
  ): Promise<readonly ObservedOutcome<NatsRevision>[]> {
    const faults: unknown[] = []
    const outcomes = await this.#during(async (session) =>
      this.#each(swaps, withinMs, async (swap, leftMs): Promise<ObservedOutcome<NatsRevision>> => {
        try {
          return await this.#swapOne(this.#safe(session), swap, leftMs)
        } catch (error) {
          faults.push(error)
          return { unknown: natsError(error) }
        }
      }),
    )
    const session = this.#lifecycle.current
    if (session !== undefined && faults.some(isStreamMissing)) this.#makeAgain(session)
    if (faults.length === swaps.length && faults.every(isNatsRefusal)) throw natsError(faults[0])
    return outcomes
  }

  async #swapOne(
    session: Session,
    { key, document, revision, idle }: SwapObserved<NatsRevision>,
    leftMs: number | undefined,
  ): Promise<ObservedOutcome<NatsRevision>> {
    const at = performance.now()
    if (at - revision.at > revisionLastsMs) return 'conflict'
    const { api, connection } = session
    const text = JSON.stringify(document)
    const bytesMax = documentBytesMaxOf(document, (connection.info?.max_payload ?? Infinity) - headerBytesMax)
    if (utf8Length(text) > bytesMax) throw new Error('Maximum payload exceeded')
    const ttl = idle ? removalTtl(document, session.bucket) : undefined
    const write = (more: object, withinMs = leftMs): Promise<number> => {
      const headers = {
        'Nats-Expected-Stream': this.#stream,
        'Nats-Expected-Last-Subject-Sequence': String(revision.seq),
        ...more,
      }
      return api.store(this.#subject(key), text, headers, withinMs)
    }
    try {
      const seq = await write(ttl === undefined ? {} : { 'Nats-TTL': ttl }).catch((error: unknown) => {
        if (!isRefusedTtl(error)) throw error
        // The bucket was made anew, and takes none.
        this.#check(session)
        return write({}, leftMs === undefined ? undefined : leftMs - (performance.now() - at))
      })
      if (idle && ttl === undefined) this.#noteIdle(api)
      return { written: { seq, at } }
    } catch (error) {
      if (isConflict(error)) return 'conflict'
      throw error
    }
  }

  list(query: ListQuery): ReturnType<ClocklessStore<NatsRevision>['list']> {
    return this.#during(({ api }) =>
      bucketPage(query, {
        keys: async () => {
          const subjects = await api.subjects(this.#stream, this.#subjects)
          return subjects.flatMap((subject) => keyOfToken(subject.slice(this.#subjects.length - 1)) ?? [])
        },
        documents: async (keys) => (await this.load(keys)).map(({ document }) => document),
      }),
    )
  }

  errorOf(error: unknown): LeaseholdError {
    return natsError(error)
  }

  // ---- notifications

  listen(channel: string, onNotified: (claim: NotifiedOwner) => void, onGap: () => void): void {
    this.#listener = { channel, onNotified, onGap }
    this.#lifecycle.current?.notifications.start(this.#listener)
  }

  notify(channel: string, claim: NotifiedOwner): void {
    this.#lifecycle.current?.notifications.send(channel, claim)
  }

  // ---- the connection

  /** What is open. A connection of our own that was closed for good, as after a refused login, is made anew. */
  async #session(): Promise<Session> {
    const current = this.#lifecycle.current
    if (current === undefined) return this.#lifecycle.opened()
    if (!current.connection.isClosed() || typeof this.#setup.source !== 'function') return current
    this.#lifecycle.forget(current)
    const opened = await this.#lifecycle.opened()
    this.#listener?.onGap()
    return opened
  }

  async #open(): Promise<Session> {
    const { source, timeoutMs } = this.#setup
    const connection = typeof source === 'function' ? await source() : source
    try {
      const api = new JetStreamApi(connection, timeoutMs)
      const bucket = this.#judged(api, await openBucket(api, this.#setup, timeoutMs))
      if (bucket.refusal !== undefined) throw bucket.refusal
      const notifications = new Notifications(connection, this.#setup.bucket)
      if (this.#listener !== undefined) notifications.start(this.#listener)
      return { connection, api, bucket, notifications }
    } catch (error) {
      if (typeof source === 'function') await connection.close().catch(() => {})
      throw natsError(error)
    }
  }

  #judged(api: JetStreamApi, { config = {}, ts = '' }: StreamInfo): BucketState {
    let refusal: LeaseholdError | undefined
    try {
      refuseReplicas(api, this.#setup.bucket, config.num_replicas ?? 1)
      refuseUnsafe(this.#setup.bucket, config)
      this.warnings = bucketWarnings(this.#setup, config)
    } catch (error) {
      refusal = natsError(error)
    }
    return { takesTtls: config.allow_msg_ttl === true, at: performance.now(), serverMs: Date.parse(ts), refusal }
  }

  /** The session, if locks are still safe in its bucket. */
  #safe(session: Session): Session {
    const { refusal } = session.bucket
    if (refusal === undefined) return session
    throw new LeaseholdError('UNAVAILABLE', plainMessageOf(refusal), { reason: 'configuration' })
  }

  /** Looks at the bucket again. Not waited for. */
  #check(session: Session): void {
    if (this.#checking !== undefined || this.#lifecycle.isShut) return
    const { api } = session
    this.#checking = bucketInfo(api, this.#setup.bucket, checkTimeoutMs)
      .then((info) => void (session.bucket = this.#judged(api, info)))
      // The call that waits for an answer of its own says what is wrong.
      .catch(() => {})
      .then(() => (this.#checking = undefined))
  }

  async #end({ connection, notifications }: Session): Promise<void> {
    notifications.close()
    if (typeof this.#setup.source !== 'function') return
    await withTimeout(connection.close(), closeMs, () => 'The connection did not close').catch(() => {})
  }

  async #during<Result>(work: (session: Session) => Promise<Result>): Promise<Result> {
    const session = await this.#session()
    if (performance.now() - session.bucket.at > bucketCheckMs) this.#check(session)
    const timer = setTimeout(() => this.#refresh(session.connection), silentMs)
    try {
      return await work(session)
    } catch (error) {
      if (isStreamMissing(error)) this.#makeAgain(session)
      throw error
    } finally {
      clearTimeout(timer)
    }
  }

  /** A call has waited for long: a connection of our own is given up for another if its server does not even answer a ping. */
  #refresh(connection: NatsConnectionLike): void {
    if (typeof this.#setup.source !== 'function') return
    this.#mend(async () => {
      const pong = withTimeout(connection.rtt(), silentMs, () => 'There was no pong')
      await pong.catch(() => connection.reconnect?.())
    })
  }

  /** The bucket was removed: it is made again, empty. If it only has no leader, it cannot be. */
  #makeAgain(session: Session): void {
    const { api } = session
    this.#mend(async () => {
      session.bucket = this.#judged(api, await openBucket(api, this.#setup, this.#setup.timeoutMs))
    })
  }

  /** Not waited for, one at a time. What fails is tried again after the next call that fails. */
  #mend(work: () => Promise<unknown>): void {
    if (this.#mending !== undefined || this.#lifecycle.isShut) return
    this.#mending = work()
      .catch(() => {})
      .then(() => (this.#mending = undefined))
  }

  /** Calls for each, a bounded number at a time, until the time is over. */
  async #each<Item, Result>(
    items: readonly Item[],
    withinMs: number | undefined,
    call: (item: Item, leftMs: number | undefined) => Promise<Result>,
  ): Promise<Result[]> {
    const endsAt = performance.now() + (withinMs ?? Infinity)
    return Promise.all(
      items.map((item) =>
        this.#calls.run(async () => {
          const leftMs = Math.floor(endsAt - performance.now())
          if (leftMs < 1) throw new CallTimedOut('There was no answer in time')
          return call(item, withinMs === undefined ? undefined : leftMs)
        }),
      ),
    )
  }

  // ---- idle documents

  #noteIdle(api: JetStreamApi): void {
    this.#idleWrites += 1
    if (this.#idleWrites % idlePerSweep === 0) this.#sweep(api)
  }

  #sweep(api: JetStreamApi): void {
    if (this.#sweeping !== undefined || this.#lifecycle.isShut) return
    const place = { stream: this.#stream, subjects: this.#subjects, isClosed: () => this.#lifecycle.isShut }
    this.#sweeping = sweepBucket(api, place, documentOf).finally(() => (this.#sweeping = undefined))
  }

  get #stream(): string {
    return `KV_${this.#setup.bucket}`
  }

  get #subjects(): string {
    return `$KV.${this.#setup.bucket}.>`
  }

  #subject(key: string): string {
    return `$KV.${this.#setup.bucket}.${tokenOfKey(key)}`
  }
}

function isConflict(error: unknown): boolean {
  if (!(error instanceof JetStreamRefusal)) return false
  return error.code === apiCode.wrongSequence || error.code === apiCode.wrongSequenceConstant
}

function isRefusedTtl(error: unknown): boolean {
  return error instanceof JetStreamRefusal && error.code === apiCode.noMessageTtl
}

/**
 * After how long the server is to remove an idle document, counted from its writing: a day and an hour, and for as long as its last
 * fence is ahead of the server's clock. Undefined: the bucket cannot, or the clock is unknown.
 */
function removalTtl({ lastFence }: ObservedDocument, { takesTtls, serverMs, at }: BucketState): string | undefined {
  const aheadMs = Math.max(0, lastFence / 1000 - (serverMs + performance.now() - at))
  return takesTtls && Number.isFinite(aheadMs) ? `${Math.ceil((aheadMs + idleKeptMs) / 1000)}s` : undefined
}

/** The document of a message; undefined: there is none, or it was deleted with the tools of KV. */
function documentOf(message: StreamMessage | undefined): ObservedDocument | undefined {
  if (message?.data === undefined || message.data === '') return undefined
  try {
    const document = JSON.parse(Buffer.from(message.data, 'base64').toString()) as ObservedDocument | null
    return typeof document === 'object' && document !== null ? document : damaged
  } catch {
    return damaged
  }
}
