import { createPrivateKey, X509Certificate } from 'node:crypto'
import { createServer as createHttp, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createHttps, type ServerOptions } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { Logger } from '../../api/client/logger.ts'
import { LeaseholdError, messageOf } from '../../core/errors.ts'
import type { Answer } from '../contract/call.ts'
import { EventStream } from './event-stream.ts'
import { carryOut, authorize, type AccessPolicy, type AuthorizedCall } from './dispatch.ts'
import type { ServerMetrics } from '../store/metrics.ts'
import { internalFault, invalid, HttpError, httpErrorOf, tooMuch } from '../contract/http-error.ts'
import { type Duplex, Readable } from 'node:stream'

/** Certificate and key, as PEM. */
export interface TlsOptions {
  readonly cert: string | Buffer
  readonly key: string | Buffer
}

/** Longer than clients keep a connection that is not used, so that they close it first and nothing is lost on the way. */
const keepAliveMs = 65_000
const retryAfterMs = 1000
const headBytesMax = 16_384
/** How long the last answers may take to be read. */
const lastBytesWithinMs = 100

/** What a listener is made of. @internal */
export interface HttpListenerOptions {
  readonly accessPolicy: AccessPolicy
  readonly tls: TlsOptions | undefined
  readonly metrics: ServerMetrics
  readonly logger: Logger | undefined
}

/** The sockets: takes calls in, has them answered, and drains. @internal */
export class HttpListener {
  /** May be replaced while calls come in. */
  accessPolicy: AccessPolicy
  readonly #server: Server
  readonly #scheme: 'http' | 'https'
  readonly #metrics: ServerMetrics
  readonly #logger: Logger | undefined
  readonly #clientFaults = new ClientFaults()
  readonly #streams = new Set<EventStream>()
  #draining: (() => void) | undefined
  #isDraining = false

  constructor({ accessPolicy, tls, metrics, logger }: HttpListenerOptions) {
    this.accessPolicy = accessPolicy
    this.#metrics = metrics
    this.#logger = logger
    this.#scheme = tls === undefined ? 'http' : 'https'
    const { headersWithinMs, bodyWithinMs, connectionsMax } = accessPolicy.limits
    const options = {
      keepAlive: true,
      noDelay: true,
      keepAliveTimeout: keepAliveMs,
      headersTimeout: headersWithinMs,
      // A body that is slow is answered by us; this is for those who do not even read that.
      requestTimeout: headersWithinMs + 2 * bodyWithinMs,
      connectionsCheckingInterval: Math.min(1000, headersWithinMs),
      maxHeaderSize: Math.max(headBytesMax, 2 * accessPolicy.limits.urlLengthMax),
    }
    const onRequest = (request: IncomingMessage, response: ServerResponse): void =>
      void this.#onRequest(request, response)
    // Node gives a handshake two minutes, and asks for no head before that.
    const secured = tls && { ...options, ...tls, handshakeTimeout: headersWithinMs }
    this.#server = secured === undefined ? createHttp(options, onRequest) : secureServer(secured, onRequest)
    this.#server.maxConnections = connectionsMax
    this.#server.on('clientError', (error, socket) => this.#clientFaults.answer(error, socket))
  }

  get isDraining(): boolean {
    return this.#isDraining
  }

  /** Begins to listen. Gives the URL. */
  async listen(host: string, port: number): Promise<string> {
    await new Promise<void>((resolve, reject) => {
      const failed = (error: Error): void => reject(cannotListen(host, port, error))
      this.#server.once('error', failed)
      this.#server.listen(port, host, () => {
        this.#server.off('error', failed)
        this.#server.on('error', (error) => this.#logger?.warn(`the server failed: ${messageOf(error)}`))
        resolve()
      })
    })
    const { port: chosen } = this.#server.address() as AddressInfo
    return `${this.#scheme}://${host.includes(':') ? `[${host}]` : host}:${chosen}`
  }

  /** Takes no more connections or calls, lets those under way finish, ends the streams, then cuts what is left. */
  async close(withinMs: number): Promise<void> {
    this.#isDraining = true
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    this.endStreams()
    if (this.#metrics.callsUnderWay > 0) await this.#callsEnd(withinMs)
    // Those that are between two calls, and those that will not end.
    this.#server.closeIdleConnections()
    const timer = setTimeout(() => this.#server.closeAllConnections(), lastBytesWithinMs)
    await closed
    clearTimeout(timer)
  }

  /** Ends every stream: callers whose token is still good reconnect. */
  endStreams(): void {
    for (const stream of this.#streams) stream.end()
  }

  #callsEnd(withinMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, withinMs)
      this.#draining = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  /** One request, from its head to the end of its answer. Never rejects. */
  async #onRequest(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const startedAt = performance.now()
    response.on('error', () => {})
    this.#clientFaults.note(request, response)
    this.#metrics.callsUnderWay += 1
    let route = 'none'
    let answer: Answer
    try {
      const preflight = this.accessPolicy.origins.preflight(request)
      if (preflight === undefined) {
        const authorized = this.#authorize(request)
        route = authorized.route.path
        answer = await carryOut(request, response, authorized, this.accessPolicy.limits)
        this.#refuseStream(answer, response)
      } else answer = preflight
    } catch (error) {
      answer = this.#failed(error, route)
    }
    this.#metrics.callsUnderWay -= 1
    this.#metrics.callAnswered(route, answer.status, (performance.now() - startedAt) / 1000)
    try {
      this.#answer(request, response, answer)
    } catch (error) {
      this.#logger?.warn(`an answer could not be written: ${messageOf(error)}`)
      response.destroy()
    }
    if (this.#metrics.callsUnderWay === 0) this.#draining?.()
  }

  #authorize(request: IncomingMessage): AuthorizedCall {
    if (this.#isDraining) {
      const message = 'This server is closing. Try again: another may have taken its place.'
      throw new HttpError(
        503,
        'draining',
        new LeaseholdError('UNAVAILABLE', message, { reason: 'draining', retryAfterMs }),
      )
    }
    const authorized = authorize(request, this.accessPolicy)
    const { callsMax } = this.accessPolicy.limits
    const isTooMuch = this.#metrics.callsUnderWay > callsMax && authorized.route.always !== true
    if (isTooMuch) throw tooMuch(`${callsMax} calls are under way.`, retryAfterMs)
    return authorized
  }

  #refuseStream({ body }: Answer, response: ServerResponse): void {
    if (typeof body === 'string') return
    const { streamsMax } = this.accessPolicy.limits
    if (this.#streams.size >= streamsMax) throw tooMuch(`There are ${streamsMax} streams already.`, retryAfterMs)
    // A pipelined stream has no socket yet, so we would not learn when its connection is gone.
    if (response.socket === null) throw invalid('A stream needs a connection of its own.', 400, 'limit')
  }

  #failed(error: unknown, route: string): Answer {
    const refusal = httpErrorOf(error)
    if (refusal !== undefined) {
      this.#metrics.refused(refusal.why)
      return refusal.answer
    }
    this.#logger?.warn(`${route} failed: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`)
    return internalFault
  }

  #answer(request: IncomingMessage, response: ServerResponse, { status, headers, body }: Answer): void {
    if (response.destroyed) return
    // What was not read of a body would be taken for the next call; and a stream ends with its connection.
    const isLast = this.#isDraining || !request.complete || typeof body !== 'string'
    response.writeHead(status, {
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      ...headers,
      ...this.accessPolicy.origins.headersFor(request),
      ...(isLast && { connection: 'close' }),
      ...(typeof body === 'string' && status !== 204 && { 'content-length': Buffer.byteLength(body) }),
    })
    if (typeof body === 'string') return writeAnswer(response, body, this.accessPolicy.limits.readWithinMs)
    const stream = new EventStream(response, () => {
      this.#streams.delete(stream)
      this.#metrics.streamsUnderWay = this.#streams.size
    })
    this.#streams.add(stream)
    this.#metrics.streamsUnderWay = this.#streams.size
    stream.start(body)
  }
}

function cannotListen(host: string, port: number, error: NodeJS.ErrnoException): LeaseholdError {
  // Bun leaves the code out of its words.
  const why = error.code === undefined || error.message.includes(error.code) ? '' : `${error.code}: `
  const message = `The server cannot listen on ${host} port ${port}: ${why}${error.message}. Choose another host or port.`
  return new LeaseholdError('UNAVAILABLE', message, { cause: error, reason: 'configuration' })
}

function secureServer(
  options: ServerOptions & TlsOptions,
  onRequest: (request: IncomingMessage, response: ServerResponse) => void,
): Server {
  // Node takes what is empty for what is absent, and would serve without a certificate.
  if (options.cert.length === 0 || options.key.length === 0) throw unusable('one of them is empty')
  try {
    // Checked before the server is made: Bun reports a bad certificate only when it listens, Deno never.
    if (!new X509Certificate(options.cert).checkPrivateKey(createPrivateKey(options.key)))
      throw new Error('they differ')
    return createHttps(options, onRequest)
  } catch (error) {
    throw unusable(messageOf(error), error)
  }
}

function unusable(why: string, cause?: unknown): LeaseholdError {
  const message = `The certificate and key cannot be used: ${why}. Both are PEM, and belong together.`
  return new LeaseholdError('INVALID', message, { cause })
}

/** Answers what Node could not even read, or what was too slow with its head. */
class ClientFaults {
  /** Calls that have no whole answer yet, by their connection. */
  readonly #unanswered = new WeakMap<Duplex, Set<IncomingMessage>>()

  /** A call has come in. */
  note(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request
    const calls = this.#unanswered.get(socket) ?? new Set()
    this.#unanswered.set(socket, calls.add(request))
    response.once('close', () => calls.delete(request))
  }

  /** Says what is wrong, and closes the connection. */
  answer(error: NodeJS.ErrnoException, socket: Duplex): void {
    const calls = [...(this.#unanswered.get(socket) ?? [])]
    // What comes behind a whole call would be answered in the place of that one, which is being carried out.
    const isBehind = calls.some(({ complete }) => complete)
    // What fails before there is HTTP, as a TLS handshake that never ends, cannot be written to: it would be kept for good.
    if (!socket.writable || !isOfHttp(error) || isBehind) return void socket.destroy()
    const [status, message] =
      error.code === 'HPE_HEADER_OVERFLOW'
        ? ['431 Request Header Fields Too Large', 'The head of the request is too long.']
        : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
          ? ['408 Request Timeout', 'The request did not arrive in time.']
          : ['400 Bad Request', 'This is not HTTP.']
    const body = JSON.stringify({ error: { code: 'INVALID', message } })
    const head = `HTTP/1.1 ${status}\r\ncontent-type: application/json; charset=utf-8\r\nconnection: close`
    // Not left to the caller, who may never close its side.
    socket.end(`${head}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`, () => socket.destroy())
  }
}

/** Whether Node's parser, or its time limit for a request, has complained. */
function isOfHttp({ code = '' }: NodeJS.ErrnoException): boolean {
  return code.startsWith('HPE_') || code === 'ERR_HTTP_REQUEST_TIMEOUT'
}

const pieceBytes = 65_536

/**
 * Writes an answer whose head has been written, and cuts it off when nothing of it is read for so long: it would stay in
 * memory for as long as its connection, and no limit counts it any more.
 */
function writeAnswer(response: ServerResponse, body: string, readWithinMs: number): void {
  response.setTimeout(readWithinMs, () => void response.destroy())
  if (body.length * 3 <= pieceBytes) response.end(body)
  // Each piece that is taken starts the time anew: slow is not gone.
  else Readable.from(piecesOf(Buffer.from(body))).pipe(response)
}

function* piecesOf(bytes: Buffer): Iterable<Buffer> {
  for (let from = 0; from < bytes.length; from += pieceBytes) yield bytes.subarray(from, from + pieceBytes)
}
