import { Agent as HttpAgent, request as httpRequest, type ClientRequest, type IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest, type RequestOptions } from 'node:https'
import { timeLimit } from '../../core/time/bounded.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { storeHeader } from '../../core/wire/wire-protocol.ts'
import { describeAddress, type Address } from './address.ts'
import { closed, overdue, senseless, unreachable, Unsent } from './faults.ts'
import { Places } from './places.ts'

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

/** Whoever reads a stream. */
export interface StreamReader {
  /** Status 200 has come, and events will. */
  opened(): void
  read(text: string): void
  /** Called once, also if it never opened. */
  ended(): void
}

/** A page may have many waiters; more than this is no answer of ours. */
const replyBytesMax = 256 * 1_048_576
const connectionsMax = 64
/** A connection that is not used for so long is closed by us, before servers and proxies do it in the midst of a call. */
const unusedMaxMs = 30_000
const streamOpensWithinMs = 5000

/** The connections to one server, kept open between calls. */
export class Line {
  /** For people. */
  readonly where: string
  readonly #address: Address
  readonly #agent: HttpAgent
  readonly #tls: { readonly ca?: string | Buffer }
  readonly #streams = new Set<ClientRequest>()
  /** Not left to the agent, which would still open connections for those who wait after it is destroyed. */
  readonly #places = new Places(connectionsMax)
  #closed = false

  constructor(address: Address, ca: string | Buffer | undefined) {
    this.where = describeAddress(address)
    this.#address = address
    this.#tls = ca === undefined ? {} : { ca }
    const options = { keepAlive: true, noDelay: true, timeout: unusedMaxMs }
    this.#agent = address.secure ? new HttpsAgent({ ...options, ...this.#tls }) : new HttpAgent(options)
  }

  /** One call. Rejects with {@link Unsent} if nothing can have reached the server, else with why there is no reply. */
  async call(method: 'GET' | 'POST', path: string, options: CallOptions): Promise<Reply> {
    const { withinMs } = options
    const deadline = performance.now() + withinMs
    const isTurn = await this.#places.take(withinMs)
    try {
      if (!isTurn && !this.#closed) throw new Unsent(overdue(this.where, withinMs))
      return await this.#exchange(method, path, options, deadline)
    } finally {
      if (isTurn) this.#places.giveBack()
    }
  }

  /**
   * A stream of text on a connection of its own, which once it is open does not keep the process alive. Call the result
   * to end it.
   */
  stream(path: string, headers: Readonly<Record<string, string>>, reader: StreamReader): () => void {
    const request = this.#begin('GET', path, false, { ...headers, accept: 'text/event-stream' })
    const timer = setTimeout(() => request.destroy(), streamOpensWithinMs)
    this.#streams.add(request)
    request.on('error', () => {})
    request.on('close', () => {
      clearTimeout(timer)
      if (this.#streams.delete(request)) reader.ended()
    })
    request.on('response', (response) => {
      clearTimeout(timer)
      response.on('error', () => {})
      response.socket.unref()
      if (response.statusCode !== 200) return void request.destroy()
      response.setEncoding('utf8')
      response.on('data', (text: string) => reader.read(text))
      reader.opened()
    })
    request.end()
    return () => void request.destroy()
  }

  close(): void {
    this.#closed = true
    this.#places.close()
    for (const request of this.#streams) request.destroy()
    this.#agent.destroy()
  }

  #exchange(method: 'GET' | 'POST', path: string, options: CallOptions, deadline: number): Promise<Reply> {
    const { headers = {}, body, withinMs } = options
    // Also whoever is about to ask again: it would open a connection that nobody closes.
    if (this.#closed) return Promise.reject(new Unsent(closed(this.where)))
    return new Promise((resolve, reject) => {
      let isSent = false
      const request = this.#begin(method, path, this.#agent, {
        ...headers,
        ...(body !== undefined && {
          'content-type': 'application/json',
          'content-length': String(Buffer.byteLength(body)),
        }),
      })
      const leftMs = Math.max(0, deadline - performance.now())
      const limit = timeLimit(leftMs, () => {
        const late = overdue(this.where, withinMs)
        request.destroy(late)
        // In Deno a request that is destroyed may tell of it much later.
        fail(late)
      })
      const fail = (error: unknown): void => {
        limit.cancel()
        // The server closed a connection that was kept. What changes nothing may be asked again, over another.
        if (method === 'GET' && request.reusedSocket && isReset(error))
          return resolve(this.#exchange(method, path, options, deadline))
        const fault = unreachable(this.where, error)
        reject(isSent ? fault : new Unsent(fault))
      }
      request.on('socket', (socket) => {
        if (request.reusedSocket || !socket.connecting) isSent = true
        else socket.once(this.#address.secure ? 'secureConnect' : 'connect', () => (isSent = true))
      })
      request.on('error', fail)
      request.on('response', (response) => {
        void readReply(response, this.where)
          .finally(() => limit.cancel())
          .then(resolve, fail)
      })
      request.end(body)
    })
  }

  #begin(
    method: string,
    path: string,
    agent: HttpAgent | false,
    headers: Readonly<Record<string, string>>,
  ): ClientRequest {
    const { secure, host, port, token } = this.#address
    const options: RequestOptions = {
      method,
      host,
      port,
      path: `${this.#address.path}${path}`,
      agent,
      headers: { ...headers, ...(token !== undefined && { authorization: `Bearer ${token}` }) },
      ...this.#tls,
    }
    return secure ? httpsRequest(options) : httpRequest(options)
  }
}

function readReply(response: IncomingMessage, where: string): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const pieces: Buffer[] = []
    let length = 0
    response.on('data', (piece: Buffer) => {
      length += piece.length
      pieces.push(piece)
      if (length > replyBytesMax) response.destroy(senseless(where, `more than ${replyBytesMax} bytes`))
    })
    response.on('error', reject)
    response.on('close', () => reject(new LeaseholdError('UNAVAILABLE', brokeOff(where), { reason: 'network' })))
    response.on('end', () =>
      resolve({
        status: response.statusCode ?? 0,
        value: parsed(Buffer.concat(pieces).toString('utf8')),
        location: response.headers.location,
        store: textOf(response.headers[storeHeader.toLowerCase()]),
      }),
    )
  })
}

function textOf(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' ? header : undefined
}

function isReset(error: unknown): boolean {
  return ['ECONNRESET', 'EPIPE'].includes((error as NodeJS.ErrnoException | undefined)?.code ?? '')
}

function brokeOff(where: string): string {
  return `The answer of the Leasehold server at ${where} broke off.`
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
