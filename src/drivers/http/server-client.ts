import { describeServer, type ServerAddress } from './address.ts'
import { closed, timedOut, Unsent } from './faults.ts'
import { CallSemaphore } from '../kit/call-semaphore.ts'
import { transportTo, type StreamReader, type Transport, type TransportOptions } from './transport.ts'
import type { Request } from '../../core/contract/driver.ts'
import { utf8Length } from '../../core/contract/bounds.ts'

/** The reply to one call. */
export interface ServerReply {
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

/** A client of one server: calls, a few at a time, and streams. */
export class ServerClient {
  /** For people. */
  readonly where: string
  readonly #authorization: Readonly<Record<string, string>>
  readonly #transport: Transport
  /** Not left to the transport: after it is closed it would still open connections for calls that wait. */
  readonly #semaphore = new CallSemaphore(connectionsMax)
  #closed = false

  constructor(address: ServerAddress, options: TransportOptions) {
    const { token } = address
    this.where = describeServer(address)
    this.#authorization = token === undefined ? {} : { authorization: `Bearer ${token}` }
    this.#transport = transportTo(address, this.where, options)
  }

  /** One call. Rejects with {@link Unsent} if nothing can have reached the server, else with why there is no reply. */
  async call(method: 'GET' | 'POST', path: string, { headers, body, withinMs }: CallOptions): Promise<ServerReply> {
    const deadline = performance.now() + withinMs
    const isTaken = await this.#semaphore.take(withinMs)
    try {
      if (this.#closed) throw new Unsent(closed(this.where))
      if (!isTaken) throw new Unsent(timedOut(this.where, withinMs))
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
      if (isTaken) this.#semaphore.giveBack()
    }
  }

  /** A stream of events, on a connection of its own. Call the result to end it. */
  stream(path: string, headers: Readonly<Record<string, string>>, reader: StreamReader): () => void {
    return this.#transport.stream(path, { ...headers, ...this.#authorization, accept: 'text/event-stream' }, reader)
  }

  close(): void {
    this.#closed = true
    this.#semaphore.close()
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

/** The requests of one call, and its body. */
export interface RequestBody {
  readonly requests: readonly Request[]
  readonly text: string
}

const head = '{"requests":['
const tail = ']}'

/** The requests in as few bodies as the server's limits allow, in order: mostly one. */
export function bodiesOf(requests: readonly Request[], requestsMax: number, bytesMax: number): readonly RequestBody[] {
  const whole = `${head}${requests.map((request) => JSON.stringify(request)).join()}${tail}`
  if (requests.length <= requestsMax && isWithin(whole, bytesMax)) return [{ requests, text: whole }]
  const bodies: RequestBody[] = []
  let gathered: { requests: Request[]; texts: string[]; bytes: number } | undefined
  for (const request of requests) {
    const text = JSON.stringify(request)
    const bytes = utf8Length(text) + 1
    const isFull =
      gathered !== undefined && (gathered.requests.length >= requestsMax || gathered.bytes + bytes > bytesMax)
    if (gathered !== undefined && isFull) bodies.push(bodyOf(gathered))
    if (gathered === undefined || isFull) gathered = { requests: [], texts: [], bytes: head.length + tail.length }
    gathered.requests.push(request)
    gathered.texts.push(text)
    gathered.bytes += bytes
  }
  if (gathered !== undefined) bodies.push(bodyOf(gathered))
  return bodies
}

/** A character takes three bytes at most: only a long text is worth counting. */
function isWithin(text: string, bytesMax: number): boolean {
  return text.length * 3 <= bytesMax || utf8Length(text) <= bytesMax
}

function bodyOf({
  requests,
  texts,
}: {
  readonly requests: readonly Request[]
  readonly texts: readonly string[]
}): RequestBody {
  return { requests, text: `${head}${texts.join()}${tail}` }
}
