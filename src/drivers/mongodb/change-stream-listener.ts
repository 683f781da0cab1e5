import { setTimeout as pause } from 'node:timers/promises'
import type { ClaimStatus } from '../../core/contract/driver.ts'
import { inTime } from '../../core/time/bounded.ts'
import type { MongoChangeStream } from './client.ts'
import { decodeStatus, type StoredKey, type StoredNotification } from './document.ts'
import { TimedOut } from './errors.ts'
import type { MongoStore } from './store.ts'

/** How long the server keeps a question open before it says that there is nothing. */
const awaitMs = 2000
/** Silent for longer, the stream counts as deaf. */
const silentMaxMs = 2 * awaitMs + 1000
const reopenMinMs = 100
const reopenMaxMs = 10_000
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
  /** Listening begins, or begins again: what happened before was not heard. */
  readonly onStart: () => void
}

/** Hears from documents what others did to our claims, by a change stream that lets only our news through. */
export class ChangeStreamListener {
  readonly #setup: ChangeStreamListenerSetup
  #stream: MongoChangeStream | undefined
  #running: Promise<void> | undefined
  #notifiedAt = -Infinity
  #closed = false
  readonly #end = new AbortController()

  constructor(setup: ChangeStreamListenerSetup) {
    this.#setup = setup
  }

  get isLive(): boolean {
    return performance.now() - this.#notifiedAt < silentMaxMs
  }

  /** Begins to listen, if it has not. */
  start(): void {
    if (!this.#closed) this.#running ??= this.#run()
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#end.abort()
    // The server is told, unless it has fallen silent: it forgets by itself.
    const ended = Promise.all([this.#stream?.close().catch(() => {}), this.#running])
    await inTime(closeMs, ended, () => new TimedOut()).catch(() => {})
  }

  async #run(): Promise<void> {
    let reopenMs = reopenMinMs
    while (!this.#closed) {
      const openedAt = performance.now()
      await this.#listen().catch(() => {})
      this.#notifiedAt = -Infinity
      if (this.#closed) return
      reopenMs = performance.now() - openedAt > reopenMaxMs ? reopenMinMs : Math.min(reopenMaxMs, reopenMs * 2)
      await pause(reopenMs, undefined, { ref: false, signal: this.#end.signal }).catch(() => {})
    }
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
      for (let first = true; !this.#closed; first = false) {
        const change = (await stream.tryNext()) as StreamedChange | null
        this.#notifiedAt = performance.now()
        if (first) onStart()
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
      const told = to === channel ? decodeStatus(status) : undefined
      if (told !== undefined) onNotification(key, id, told)
    }
  }
}
