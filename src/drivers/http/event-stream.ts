import type { Backoff } from '../../core/time/backoff.ts'
import type { OnNotification } from '../../core/contract/driver.ts'
import { unref } from '../../core/time/event-loop.ts'
import { Reconnector } from '../kit/reconnector.ts'
import { sessionHeader, fromWireStatus } from '../../core/wire/replies.ts'
import { EventReader, type ServerEvent } from './event-reader.ts'
import type { ServerClient } from './server-client.ts'

export interface ServerEventListener {
  readonly onNotification: OnNotification
  /** Notifications may have been lost: the stream has just begun, perhaps once more, or the server's own store says so. */
  onGap(): void
}

const reconnecting: Backoff = { attempts: Infinity, minMs: 100, maxMs: 10_000, factor: 2, jitter: 0.2 }
/** A stream that is cut sooner counts as one that did not open. */
const lastsMs = 500
/** A server sends something every 15 s, if only a comment. A stream silent for longer is dead. */
const silentMaxMs = 45_000

/** The notifications of a server about our claims, until closed, over as many connections as that takes. */
export class ServerEventStream {
  readonly #client: ServerClient
  readonly #session: string
  readonly #listener: ServerEventListener
  #end: (() => void) | undefined
  readonly #reconnector = new Reconnector({ backoff: reconnecting, lastsMs, attempt: () => this.#connect(() => {}) })
  #closed = false

  constructor(client: ServerClient, session: string, listener: ServerEventListener) {
    this.#client = client
    this.#session = session
    this.#listener = listener
  }

  /** Resolves when the first attempt has succeeded or failed; further ones follow by themselves. */
  start(): Promise<void> {
    return new Promise((resolve) => this.#connect(resolve))
  }

  close(): void {
    this.#closed = true
    this.#reconnector.close()
    this.#end?.()
  }

  #connect(settled: () => void): void {
    if (this.#closed) return settled()
    const events = new EventReader((event) => this.#onNotification(event))
    let silence: NodeJS.Timeout | undefined
    const end = this.#client.stream(
      '/v1/notifications',
      { [sessionHeader]: this.#session },
      {
        opened: () => {
          this.#reconnector.succeeded()
          silence = unref(setTimeout(end, silentMaxMs))
          this.#listener.onGap()
          settled()
        },
        read: (text) => {
          clearTimeout(silence)
          silence = unref(setTimeout(end, silentMaxMs))
          if (!events.read(text)) end()
        },
        ended: () => {
          clearTimeout(silence)
          settled()
          this.#reconnector.failed()
        },
      },
    )
    this.#end = end
  }

  /** Drops what makes no sense: notifications are hints. */
  #onNotification({ event, data }: ServerEvent): void {
    if (event === 'gap' && !this.#closed) return this.#listener.onGap()
    const { key, id, status } = recordIn(data)
    if (this.#closed || typeof key !== 'string' || typeof id !== 'string') return
    const notification = event === 'poll' ? 'poll' : event === 'status' ? fromWireStatus(status) : undefined
    if (notification !== undefined) this.#listener.onNotification(key, id, notification)
  }
}

function recordIn(data: string): Readonly<Record<string, unknown>> {
  try {
    return (JSON.parse(data) as Readonly<Record<string, unknown>> | null) ?? {}
  } catch {
    return {}
  }
}
