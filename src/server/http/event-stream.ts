import type { ServerResponse } from 'node:http'
import type { EventFeed } from '../contract/call.ts'
import type { ByteHolding } from './held-bytes.ts'
import { endAnswer } from './write-answer.ts'

/** The most that may wait to be read. A slower caller is cut off: notifications are hints, memory is finite. */
const bufferedBytesMax = 262_144
/** Proxies close what is silent for long. */
const commentEveryMs = 15_000

/** The call that a stream answers. @internal */
export interface StreamedCall {
  readonly response: ServerResponse
  /** Counts what waits to be read. */
  readonly holding: ByteHolding | undefined
}

/** What streams tell of themselves: one object for all of them. @internal */
export interface EventStreamEvents {
  /** How long a caller may read nothing of what is left when its stream has ended. */
  readonly readWithinMs: () => number
  /** Called once, when the stream is over. */
  readonly ended: (stream: EventStream) => void
  /** Called before `ended` if it is cut off because its caller does not read. */
  readonly unread: (stream: EventStream) => void
}

/** Writes server-sent events to one caller, until either side ends it. */
export class EventStream {
  readonly #call: StreamedCall
  readonly #events: EventStreamEvents
  readonly #timer: NodeJS.Timeout
  #source: Disposable | undefined
  #open = true

  /** The head of the response has been written. */
  constructor(call: StreamedCall, events: EventStreamEvents) {
    this.#call = call
    this.#events = events
    this.#timer = setInterval(() => this.#write(':\n\n'), commentEveryMs).unref()
    call.response.on('close', () => this.#letGo())
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

  /** Repeatable. */
  end(): void {
    if (!this.#open) return
    this.#letGo()
    endAnswer(this.#call.response, this.#events.readWithinMs(), () => this.#events.unread(this))
  }

  #write(text: string): void {
    if (!this.#open) return
    const { response, holding } = this.#call
    response.write(text)
    const waiting = response.writableLength
    // Below that there will be no `drain`.
    if (waiting < response.writableHighWaterMark) return
    if (response.listenerCount('drain') === 0) response.on('drain', () => holding?.set(0))
    // May end this stream, or one that is further behind.
    holding?.set(waiting)
    if (waiting <= bufferedBytesMax) return
    this.#events.unread(this)
    this.#letGo()
    response.destroy()
  }

  #letGo(): void {
    if (!this.#open) return
    this.#open = false
    clearInterval(this.#timer)
    this.#source?.[Symbol.dispose]()
    this.#events.ended(this)
  }
}
