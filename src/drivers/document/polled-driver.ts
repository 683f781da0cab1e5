/**
 * The part of a driver that keeps one document a key in a store with a clock and without notifications: life cycle, sends, and
 * hand-over by polling, one read for all claims of the driver that wait.
 */
import type {
  ClaimStatus,
  KeyPage,
  ListQuery,
  LockDriver,
  OnGap,
  OnNotification,
  Request,
  Supports,
} from '../../core/contract/driver.ts'
import type { LeaseholdError } from '../../core/errors.ts'
import { systemEnvironment, type Environment } from '../../core/time/environment.ts'
import { ClaimRegister } from '../kit/claim-register.ts'
import { Lifecycle } from '../kit/lifecycle.ts'
import { Listeners } from '../kit/listeners.ts'
import { QueuePoller, type PollPace, type StoredPlace } from '../kit/queue-poller.ts'
import { sendOnDocuments, type DocumentSend, type DocumentSender } from './document-send.ts'
import type { Loaded } from './document-swaps.ts'
import type { KeyDocument } from './key-document.ts'
import { timeAtReading } from './reading-time.ts'

/** A store that {@link PolledDriver} uses. `Opened` is what its `open` gives, to be closed by `close`. @internal */
export interface PolledStore<Opened, Revision> {
  readonly name: string
  /** Begins the message of CLOSED: `This MySQL store`. */
  readonly subject: string
  readonly supports: Supports
  readonly pace: PollPace
  /** The clock of this process by which leases are surely not over. @default the machine's */
  readonly ownTime?: (() => number) | undefined
  open(): Promise<Opened>
  close(opened: Opened): Promise<void>
  begin(opened: Opened, requests: readonly Request[]): DocumentSend<Revision>
  /** The documents of those keys that have one, and the store's clock, in milliseconds. */
  read(opened: Opened, keys: readonly string[]): Promise<ReadDocuments>
  list(opened: Opened, query: ListQuery): Promise<KeyPage>
  dataAgeMs(opened: Opened): Promise<number>
  errorOf(error: unknown): LeaseholdError
}

/** @internal */
export interface ReadDocuments {
  readonly now: number
  readonly documents: ReadonlyMap<string, KeyDocument>
}

/** See the top of the file. @internal */
export class PolledDriver<Opened, Revision> implements LockDriver {
  readonly name: string
  readonly supports: Supports
  readonly #store: PolledStore<Opened, Revision>
  readonly #environment: Environment
  readonly #claims = new ClaimRegister()
  readonly #listeners = new Listeners()
  readonly #lifecycle: Lifecycle<Opened>
  readonly #sender: DocumentSender<Opened, Revision>
  readonly #poller: QueuePoller

  constructor(store: PolledStore<Opened, Revision>, environment: Environment = systemEnvironment()) {
    this.#store = store
    this.#environment = environment
    this.name = store.name
    this.supports = store.supports
    this.#lifecycle = new Lifecycle(
      store.subject,
      () => store.open(),
      (opened) => store.close(opened),
    )
    this.#sender = {
      supports: store.supports,
      lifecycle: this.#lifecycle,
      environment,
      begin: (opened, requests) => this.#begin(opened, requests),
      errorOf: (error) => store.errorOf(error),
    }
    this.#poller = new QueuePoller({
      claims: this.#claims,
      pace: store.pace,
      environment,
      read: (keys) => this.#places(keys),
      mustPoll: () => true,
      ownTime: () => this.#ownTime(),
      poll: (key, id) => this.#listeners.notify(key, id, 'poll'),
    })
  }

  open(): Promise<void> {
    return this.#using(async () => {})
  }

  send(requests: readonly Request[]): Promise<readonly ClaimStatus[]> {
    return sendOnDocuments(this.#sender, requests)
  }

  list(query: ListQuery): Promise<KeyPage> {
    return this.#using((opened) => this.#store.list(opened, query))
  }

  dataAgeMs(): Promise<number> {
    return this.#using((opened) => this.#store.dataAgeMs(opened))
  }

  listen(onNotification: OnNotification, onGap?: OnGap): Disposable {
    return this.#listeners.listen(onNotification, onGap)
  }

  async close(): Promise<void> {
    const opened = this.#lifecycle.shut()
    this.#listeners.clear()
    this.#claims.clear()
    await this.#lifecycle.settled()
    await this.#poller.close()
    if (opened !== undefined) await this.#store.close(opened)
  }

  async #using<Result>(work: (opened: Opened) => Promise<Result>): Promise<Result> {
    try {
      return await work(await this.#lifecycle.opened())
    } catch (error) {
      throw this.#store.errorOf(error)
    }
  }

  #begin(opened: Opened, requests: readonly Request[]): DocumentSend<Revision> {
    const sentAt = this.#ownTime()
    const send = this.#store.begin(opened, requests)
    return {
      fast: async (sent) => (await send.fast?.(sent)) ?? sent.map(() => undefined),
      get mayHaveWritten() {
        return send.mayHaveWritten === true
      },
      load: async (keys) => {
        const askedAt = this.#environment.now()
        const { now, wall, loaded } = await send.load(keys)
        const claims = loaded.flatMap(({ document }: Loaded<Revision>) => document?.claims ?? [])
        return { now: timeAtReading(now, this.#environment.now() - askedAt, claims), wall, loaded }
      },
      swap: (swaps) => send.swap(swaps),
      notify: (notifications) =>
        this.#environment.defer(() => {
          for (const { key, record, status } of notifications) {
            const { id } = record.claim
            if (!this.#claims.has(key, id)) continue
            this.#claims.told(key, id, status)
            this.#listeners.notify(key, id, status)
          }
        }),
      settled: (statuses) => {
        send.settled?.(statuses)
        if (statuses !== undefined) this.#settled(requests, statuses, sentAt)
      },
    }
  }

  #ownTime(): number {
    return this.#store.ownTime?.() ?? this.#environment.now()
  }

  #settled(requests: readonly Request[], statuses: readonly ClaimStatus[], sentAt: number): void {
    if (this.#lifecycle.isShut) return
    const { keys, found } = this.#claims.note(requests, statuses, sentAt)
    // An owner that learnt of a change by asking may not know all of it: a poll of its claim costs little.
    if (found.length > 0)
      this.#environment.defer(() => found.forEach(({ key, id }) => this.#listeners.notify(key, id, 'poll')))
    if (keys.length > 0) this.#poller.watch(keys)
  }

  /** This driver's claims in the documents of these keys. */
  async #places(keys: readonly string[]): Promise<ReadonlyMap<string, ReadonlyMap<string, StoredPlace>>> {
    const { now, documents } = await this.#store.read(await this.#lifecycle.opened(), keys)
    const places = new Map<string, ReadonlyMap<string, StoredPlace>>()
    for (const [key, { claims }] of documents) {
      // Damaged: the next request about the key says so.
      if (Array.isArray(claims)) places.set(key, placesIn(claims as KeyDocument['claims'], this.#claims.of(key), now))
    }
    return places
  }
}

function placesIn(
  claims: KeyDocument['claims'],
  own: ReadonlyMap<string, unknown>,
  now: number,
): ReadonlyMap<string, StoredPlace> {
  const places = new Map<string, StoredPlace>()
  let isDue = false
  for (const [place, record] of claims.entries()) {
    if (record?.claim === undefined) break
    const { state, claim, expiresAt } = record
    if (own.has(claim.id)) {
      const leaving = record.leaving !== undefined
      places.set(claim.id, { state, leaving, place, isDue: isDue && state === 'waiting' })
    }
    isDue ||= now >= expiresAt + (state === 'held' ? claim.graceMs : 0)
  }
  return places
}
