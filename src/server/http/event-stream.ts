import type { ServerResponse } from 'node:http'
import type { EventFeed } from '../contract/call.ts'
import type { ByteHolding } from './held-bytes.ts'

/** The most that may wait to be read. A slower caller is cut off: notifications are hints, memory is finite. */
const bufferedBytesMax = 262_144
/** Proxies close what is silent for long. */
const commentEveryMs = 15_000

/** What a stream tells of itself. @internal */
export interface EventStreamOptions {
  /** Counts what waits to be read. */
  readonly holding: ByteHolding | undefined
  /** Called once, when the stream is over. */
  readonly ended: () => void
  /** Called before `ended` if it is cut off because its caller does not read. */
  readonly unread: () => void
}

/** Writes server-sent events to one caller, until either side ends it. */
export class EventStream {
  readonly #response: ServerResponse
  readonly #timer: NodeJS.Timeout
  readonly #options: EventStreamOptions
  #source: Disposable | undefined
  #open = true

  /** The head of the response has been written. */
  constructor(response: ServerResponse, options: EventStreamOptions) {
    this.#response = response
    this.#options = options
    this.#timer = setInterval(() => this.#write(':\n\n'), commentEveryMs).unref()
    response.on('close', () => this.#letGo())
    response.on('drain', () => options.holding?.set(0))
  }

  /** Called once. Throws what the source throws; the response is to be destroyed then. */
  start(source: EventFeed): void {
    // Written at once, so that the caller sees that the stream is open.
    this.#write(':\n\n')
    const send = (event: string, data: unknown): void =>
      this.#write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
    const attached = source.attach(send, () => this.end())
    // The feed may already have sent more than the caller reads, which closed the stream.
    if (this.#open) this.#source = attached
    else attached[Symbol.dispose]()
  }

  end(): void {
    this.#letGo()
    this.#response.end()
  }

  #write(text: string): void {
    if (!this.#open) return
    this.#response.write(text)
    const waiting = this.#response.writableLength
    // Below that there will be no `drain`.
    if (waiting < this.#response.writableHighWaterMark) return
    // May end this stream, or one that is further behind.
    this.#options.holding?.set(waiting)
    if (waiting <= bufferedBytesMax) return
    this.#options.unread()
    this.#letGo()
    this.#response.destroy()
  }

  #letGo(): void {
    if (!this.#open) return
    this.#open = false
    clearInterval(this.#timer)
    this.#source?.[Symbol.dispose]()
    this.#options.ended()
  }
}
