import { pauseMs, type Backoff } from '../../core/time/backoff.ts'
import type { OnNotification } from '../../core/contract/driver.ts'
import { unref } from '../../core/time/event-loop.ts'
import { sessionHeader, fromWireStatus } from '../../core/wire/replies.ts'
import { EventReader, type ServerEvent } from './event-reader.ts'
import type { Line } from './line.ts'

export interface NotificationStreamEvents {
  readonly onNotification: OnNotification
  /** News may have been missed: the stream has just begun, perhaps once more. */
  onGap(): void
}

const reconnecting: Backoff = { attempts: Infinity, minMs: 100, maxMs: 10_000, factor: 2, jitter: 0.2 }
/** One that is cut sooner is no better than one that does not open. */
const lastsMs = 500
/** A server says something every 15 s, if only a comment. */
const silentMaxMs = 45_000

/** What a server tells of our claims, for as long as it is not closed, over as many connections as that takes. */
export class NotificationStream {
  readonly #line: Line
  readonly #session: string
  readonly #listener: NotificationStreamEvents
  #end: (() => void) | undefined
  #retry: NodeJS.Timeout | undefined
  #failures = 0
  #closed = false

  constructor(line: Line, session: string, listener: NotificationStreamEvents) {
    this.#line = line
    this.#session = session
    this.#listener = listener
  }

  /** Resolves when the first attempt has succeeded or failed; further ones follow by themselves. */
  start(): Promise<void> {
    return new Promise((resolve) => this.#connect(resolve))
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#retry)
    this.#end?.()
  }

  #connect(settled: () => void): void {
    if (this.#closed) return settled()
    const events = new EventReader((event) => this.#onNotification(event))
    let silence: NodeJS.Timeout | undefined
    let openedAt = Infinity
    const end = this.#line.stream(
      '/v1/notifications',
      { [sessionHeader]: this.#session },
      {
        opened: () => {
          openedAt = performance.now()
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
          if (performance.now() - openedAt >= lastsMs) this.#failures = 0
          this.#connectLater()
        },
      },
    )
    this.#end = end
  }

  #connectLater(): void {
    if (this.#closed) return
    this.#failures += 1
    const delayMs = pauseMs(reconnecting, this.#failures, Math.random())
    this.#retry = unref(setTimeout(() => this.#connect(() => {}), delayMs))
  }

  /** What makes no sense is dropped: news are hints. */
  #onNotification({ event, data }: ServerEvent): void {
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
