import type { ClaimStatus } from '../../core/contract/driver.ts'
import type { Backoff } from '../../core/time/backoff.ts'
import { withTimeout } from '../kit/call-timeout.ts'
import { Reconnector } from '../kit/reconnector.ts'
import type { MongoChangeStream } from './client.ts'
import { decodeStatus, type StoredKey, type StoredNotification } from './document.ts'
import { noAnswerInTime } from './errors.ts'
import type { MongoStore } from './store.ts'

/** How long the server waits for a change before it answers that there is none. */
const awaitMs = 2000
/** A stream without an answer for longer than this is not live. */
const silentMaxMs = 2 * awaitMs + 1000
const reopening: Backoff = { attempts: Infinity, minMs: 200, maxMs: 10_000, factor: 2, jitter: 0 }
/** A stream that ends sooner than this counts as one more failure. */
const lastsMs = 10_000
const closeMs = 1000
/** The field of a document that the stream filters by: checked here, as the filter is text. */
const notificationsField = 'notifications' satisfies keyof StoredKey

interface StreamedChange {
  readonly operationType: string
  readonly documentKey?: { readonly _id: string }
  readonly fullDocument?: { readonly notifications?: readonly StoredNotification[] }
}

export interface ChangeStreamListenerSetup {
  readonly store: MongoStore
  readonly channel: string
  readonly onNotification: (key: string, id: string, status: ClaimStatus) => void
  /** Listening begins, or begins again: notifications before that were missed. */
  readonly onStart: () => void
}

/** Receives the notifications that other drivers store in documents, by a change stream that passes only those to our channel. */
export class ChangeStreamListener {
  readonly #setup: ChangeStreamListenerSetup
  #stream: MongoChangeStream | undefined
  #attempting: Promise<void> | undefined
  /** When the server last answered, with or without a change. */
  #answeredAt = -Infinity
  #isStarted = false
  #isClosed = false
  readonly #reconnector = new Reconnector({
    backoff: reopening,
    attempt: () => void (this.#attempting = this.#attempt()),
    lastsMs,
  })

  constructor(setup: ChangeStreamListenerSetup) {
    this.#setup = setup
  }

  get isLive(): boolean {
    return performance.now() - this.#answeredAt < silentMaxMs
  }

  /** Begins to listen, if it has not. */
  start(): void {
    if (this.#isClosed || this.#isStarted) return
    this.#isStarted = true
    this.#attempting = this.#attempt()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#reconnector.close()
    // The server is told, unless it has stopped answering: it then drops the cursor by itself.
    const ended = Promise.all([this.#stream?.close().catch(() => {}), this.#attempting])
    await withTimeout(ended, closeMs, noAnswerInTime).catch(() => {})
  }

  async #attempt(): Promise<void> {
    await this.#listen().catch(() => {})
    this.#answeredAt = -Infinity
    this.#reconnector.failed()
  }

  /** Listens until the stream ends or fails. */
  async #listen(): Promise<void> {
    const { store, channel, onStart } = this.#setup
    const notifications = { operationType: 'replace', [`fullDocument.${notificationsField}.to`]: channel }
    const pipeline = [
      { $match: { $or: [notifications, { operationType: 'invalidate' }] } },
      { $project: { operationType: 1, documentKey: 1, [`fullDocument.${notificationsField}`]: 1 } },
    ]
    const stream = store.collection.watch(pipeline, { maxAwaitTimeMS: awaitMs })
    this.#stream = stream
    try {
      for (let first = true; !this.#isClosed; first = false) {
        const change = (await stream.tryNext()) as StreamedChange | null
        this.#answeredAt = performance.now()
        if (first) {
          this.#reconnector.succeeded()
          onStart()
        }
        if (change?.operationType === 'invalidate' || stream.closed) return
        if (change !== null) this.#deliver(change)
      }
    } finally {
      await stream.close().catch(() => {})
    }
  }

  #deliver({ documentKey, fullDocument }: StreamedChange): void {
    const { channel, onNotification } = this.#setup
    const { _id: key = '' } = documentKey ?? {}
    for (const { to, id, status } of fullDocument?.notifications ?? []) {
      const decoded = to === channel ? decodeStatus(status) : undefined
      if (decoded !== undefined) onNotification(key, id, decoded)
    }
  }
}
