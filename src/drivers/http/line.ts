import { describeAddress, type Address } from './address.ts'
import { closed, timedOut, Unsent } from './faults.ts'
import { Semaphore } from './semaphore.ts'
import { transportTo, type StreamReader, type Transport, type TransportOptions } from './transport.ts'

/** What came back. */
export interface Reply {
  readonly status: number
  /** The body, if it is JSON. */
  readonly value: unknown
  readonly location: string | undefined
  /** The server's digest of what it says of its store: see `storeHeader`. */
  readonly store: string | undefined
}

export interface CallOptions {
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly withinMs: number
}

const connectionsMax = 64

/** The way to one server: calls, a few at a time, and streams. */
export class Line {
  /** For people. */
  readonly where: string
  readonly #authorization: Readonly<Record<string, string>>
  readonly #transport: Transport
  /** Not left to the transport, which would still open connections for those who wait after it is closed. */
  readonly #places = new Semaphore(connectionsMax)
  #closed = false

  constructor(address: Address, options: TransportOptions) {
    const { token } = address
    this.where = describeAddress(address)
    this.#authorization = token === undefined ? {} : { authorization: `Bearer ${token}` }
    this.#transport = transportTo(address, this.where, options)
  }

  /** One call. Rejects with {@link Unsent} if nothing can have reached the server, else with why there is no reply. */
  async call(method: 'GET' | 'POST', path: string, { headers, body, withinMs }: CallOptions): Promise<Reply> {
    const deadline = performance.now() + withinMs
    const isTurn = await this.#places.take(withinMs)
    try {
      if (this.#closed) throw new Unsent(closed(this.where))
      if (!isTurn) throw new Unsent(timedOut(this.where, withinMs))
      const { text, ...reply } = await this.#transport.call({
        method,
        path,
        headers: {
          ...headers,
          ...this.#authorization,
          ...(body !== undefined && { 'content-type': 'application/json' }),
        },
        body,
        deadline,
        timedOut: () => timedOut(this.where, withinMs),
      })
      return { ...reply, value: parsed(text) }
    } finally {
      if (isTurn) this.#places.giveBack()
    }
  }

  /** A stream of events, on a connection of its own. Call the result to end it. */
  stream(path: string, headers: Readonly<Record<string, string>>, reader: StreamReader): () => void {
    return this.#transport.stream(path, { ...headers, ...this.#authorization, accept: 'text/event-stream' }, reader)
  }

  close(): void {
    this.#closed = true
    this.#places.close()
    this.#transport.close()
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
