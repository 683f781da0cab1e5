import { createServer as createHttp, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Server as SecureServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { Logger } from '../../api/client/logger.ts'
import { redactedText } from '../../core/contract/redaction.ts'
import { LeaseholdError, messageOf, plainMessageOf } from '../../core/errors.ts'
import { isFeed, type Answer } from '../contract/call.ts'
import { answerFault } from './client-faults.ts'
import { ConnectionLimits } from './connection-limits.ts'
import { DropLog } from './drop-log.ts'
import { EventStream, type EventStreamEvents } from './event-stream.ts'
import { FairTurns, unitsPerTurn } from './fair-turns.ts'
import { HeldBytes } from './held-bytes.ts'
import { carryOut, authorize, type AccessPolicy, type AuthorizedCall, type SeenCall } from './dispatch.ts'
import { OpenCalls } from './open-calls.ts'
import { callerGone, RunningCall } from './running-call.ts'
import { replaceCertificates, secureServer, type TlsOptions } from './tls.ts'
import { writeAnswer } from './write-answer.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { SignInError } from '../auth/authenticator.ts'
import { TokenShares } from '../auth/token-shares.ts'
import { RequestsRefused } from '../store/authorized-store.ts'
import type { ServerMetrics } from '../store/metrics.ts'
import type { Environment } from '../../core/time/environment.ts'
import { internalFault, invalid, HttpError, httpErrorOf, tooMuch } from '../contract/http-error.ts'
import type { Duplex } from 'node:stream'

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
  readonly audit: AuditLog | undefined
  readonly logger: Logger | undefined
  readonly environment: Pick<Environment, 'now' | 'wall' | 'timer'>
}

/** The sockets: takes calls in, has them answered, and drains. @internal */
export class HttpListener {
  /** May be replaced while calls come in. */
  accessPolicy: AccessPolicy
  readonly #server: Server
  readonly #scheme: 'http' | 'https'
  readonly #metrics: ServerMetrics
  readonly #logger: Logger | undefined
  readonly #streams = new Set<EventStream>()
  readonly #openCalls: OpenCalls
  readonly #audit: AuditLog | undefined
  readonly #connections: ConnectionLimits
  readonly #drops: DropLog
  readonly #held: HeldBytes
  readonly #callShares: TokenShares
  readonly #waitShares: TokenShares
  readonly #streamShares: TokenShares
  readonly #turns = new FairTurns()
  readonly #unread = (): void => this.#drops.note('unread')
  /** The same for all streams. */
  readonly #streamEvents: EventStreamEvents = {
    readWithinMs: () => this.accessPolicy.limits.readWithinMs,
    unread: this.#unread,
    ended: (stream) => {
      this.#streams.delete(stream)
      this.#metrics.streamsUnderWay = this.#streams.size
    },
  }
  /** Calls whose body is there and which are not answered yet. */
  #carriedOut = 0
  #tls: TlsOptions | undefined
  /** Connections made since the authority of the client certificates was last changed. */
  #current = new WeakSet<Duplex>()
  #draining: (() => void) | undefined
  #isDraining = false

  constructor({ accessPolicy, tls, metrics, audit, logger, environment }: HttpListenerOptions) {
    this.accessPolicy = accessPolicy
    this.#tls = tls
    this.#audit = audit
    this.#openCalls = new OpenCalls(environment)
    this.#metrics = metrics
    this.#logger = logger
    this.#scheme = tls === undefined ? 'http' : 'https'
    const { limits, proxies } = accessPolicy
    this.#drops = new DropLog(logger, (why) => metrics.dropped(why), environment)
    this.#connections = new ConnectionLimits({ limits, proxies, drops: this.#drops, environment })
    this.#held = new HeldBytes(limits)
    this.#callShares = new TokenShares(limits.callsPerTokenMax)
    this.#waitShares = new TokenShares(limits.waitsPerTokenMax)
    this.#streamShares = new TokenShares(limits.streamsPerTokenMax)
    metrics.heldBytes = () => this.#held.bytes
    const { headersWithinMs, bodyWithinMs, connectionsMax } = limits
    const options = {
      keepAlive: true,
      noDelay: true,
      keepAliveTimeout: keepAliveMs,
      headersTimeout: headersWithinMs,
      // A body that is slow is answered by us; this is for those who do not even read that.
      requestTimeout: headersWithinMs + 2 * bodyWithinMs,
      connectionsCheckingInterval: Math.min(1000, headersWithinMs),
      maxHeaderSize: Math.max(headBytesMax, 2 * limits.urlLengthMax),
    }
    const onRequest = (request: IncomingMessage, response: ServerResponse): void =>
      void this.#onRequest(request, response)
    // Node gives a handshake two minutes, and asks for no head before that.
    const secured = { ...options, handshakeTimeout: headersWithinMs }
    this.#server = tls === undefined ? createHttp(options, onRequest) : secureServer(secured, tls, onRequest)
    this.#server.maxConnections = connectionsMax
    this.#server.on('drop', () => this.#drops.note('connections'))
    this.#server.on('connection', (socket: Socket) => this.#connections.accept(socket))
    this.#server.on(tls === undefined ? 'connection' : 'secureConnection', (socket) => void this.#current.add(socket))
    // Node would answer for itself, and count nothing.
    this.#server.on('checkExpectation', onRequest)
    this.#server.on('clientError', (error, socket) =>
      answerFault(error, socket, this.#connections.hasWholeCall(socket)),
    )
    this.#server.on('tlsClientError', (error, socket) => this.#noteHandshake(error, socket))
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

  /** Takes other rules for callers. Streams and calls of those who would not be let in any more, or with other rights, end. */
  replaceAccess(access: Partial<AccessPolicy>): void {
    this.accessPolicy = { ...this.accessPolicy, ...access }
    const { authenticator } = this.accessPolicy
    this.#openCalls.endUnless((signIn) => authenticator?.stillTakes(signIn) === true)
  }

  /** Takes other certificates for the connections to come. Throws INVALID, and keeps the old ones, if they cannot be used. */
  replaceTls(tls: TlsOptions): void {
    if (this.#tls === undefined) throw new LeaseholdError('INVALID', 'This server was started without TLS.')
    const { clients, clientCa } = this.#tls
    if (
      (clientCa === undefined) !== (tls.clientCa === undefined) ||
      (clients ?? 'required') !== (tls.clients ?? 'required')
    ) {
      throw new LeaseholdError('INVALID', 'Whether clients need certificates cannot be changed while the server runs.')
    }
    replaceCertificates(this.#server as SecureServer, tls)
    this.#tls = tls
    if (String(clientCa) === String(tls.clientCa)) return
    // What the old authority has signed counts until each connection's next answer.
    this.#current = new WeakSet()
    this.#openCalls.endUnless(({ credential }) => !credential.includes(':'))
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
    response.on('error', () => {})
    const connection = this.#connections.begin(request, response)
    if (connection === undefined) return
    const startedAt = performance.now()
    this.#metrics.callsUnderWay += 1
    const { proxies, authenticator } = this.accessPolicy
    const isOpen = authenticator !== undefined
    const call = new RunningCall(request, response, { connection, address: proxies.addressOf(request), isOpen })
    response.on('close', () => this.#closed(call))
    const answer = await this.#answerOf(call)
    this.#metrics.callsUnderWay -= 1
    if (call.isCarriedOut) this.#carriedOut -= 1
    this.#metrics.callAnswered(call.seen.route, answer.status, (performance.now() - startedAt) / 1000)
    const isStream = isFeed(answer.body)
    call.isAnswered = true
    // A caller that has gone meanwhile tells of it no more.
    if (!isStream || response.closed || response.destroyed) call.letGo()
    try {
      this.#answer(call, answer)
      if (isStream && call.over.isOver) call.stream?.end()
    } catch (error) {
      this.#logger?.warn(`an answer could not be written: ${messageOf(error)}`)
      response.destroy()
    }
    if (this.#metrics.callsUnderWay === 0) this.#draining?.()
  }

  #closed(call: RunningCall): void {
    this.#connections.end(call.request, call.response)
    call.closed()
  }

  /** Lets the route answer a call that is allowed. What it was allowed by is not kept for as long as a stream lasts. */
  async #answerOf(call: RunningCall): Promise<Answer> {
    const { request, response, seen } = call
    try {
      const preflight = this.accessPolicy.origins.preflight(request)
      if (preflight !== undefined) {
        this.accessPolicy.rates.checkAddress(seen.address)
        return preflight
      }
      const authorized = await this.#authorize(request, seen)
      const { signIn, route } = authorized
      this.#count(call, authorized)
      call.open = signIn && this.#openCalls.add(signIn, call)
      if (route.waits !== undefined) requireSocket(response, 'A call that may wait')
      const answer = await carryOut(request, authorized, this.accessPolicy, {
        over: call.over,
        received: (bytes) => call.holding?.set(bytes),
        admit: (bodyBytes) => this.#admit(call, authorized, bodyBytes),
        turn: () => this.#turn(call, unitsPerTurn),
      })
      this.#countStream(answer, call)
      return answer
    } catch (error) {
      return this.#failed(error, seen, request)
    }
  }

  /** Counts a call against its token's share, from before its body has arrived. */
  #count(call: RunningCall, authorized: AuthorizedCall): void {
    const { signIn, route } = authorized
    const { request, connection, seen } = call
    call.signIn = signIn
    call.isOpen &&= signIn === undefined
    if (!call.isOpen) this.#connections.know(request.socket)
    call.owner = call.token === undefined ? `address ${seen.address}` : `token ${call.token}`
    const drop = (): void => this.#connections.drop(request.socket, 'bytes')
    call.hold(this.#held.hold({ owner: call.owner, connection, drop }))
    if (call.token === undefined || route.always === true) return
    const { callsPerTokenMax, waitsPerTokenMax } = this.accessPolicy.limits
    const isWait = waits(authorized)
    call.share = (isWait ? this.#waitShares : this.#callShares).take(call.token)
    if (call.share !== undefined) return
    this.#metrics.quotaRefused(isWait ? 'waits' : 'calls')
    const what = isWait
      ? `${waitsPerTokenMax} calls of this token wait`
      : `${callsPerTokenMax} calls of this token are under way`
    throw tooMuch(`${what} already.`, retryAfterMs)
  }

  /** Counts a call that is complete, and waits for its caller's turn. */
  async #admit(call: RunningCall, authorized: AuthorizedCall, bodyBytes: number): Promise<void> {
    const { route } = authorized
    const { callsMax } = this.accessPolicy.limits
    if (this.#carriedOut >= callsMax && route.always !== true) {
      throw tooMuch(`${callsMax} calls are under way.`, retryAfterMs)
    }
    if (!waits(authorized)) {
      this.#carriedOut += 1
      call.isCarriedOut = true
    }
    if (route.always === true) return
    await this.#turn(call, bodyBytes)
  }

  async #turn({ owner, response, over }: RunningCall, units: number): Promise<void> {
    await this.#turns.enter(owner, units)
    over.throwIfRefused()
    if (response.destroyed) throw invalid('The caller has gone.', 400, 'body')
  }

  async #authorize(request: IncomingMessage, seen: SeenCall): Promise<AuthorizedCall> {
    if (this.#isDraining) {
      const message = 'This server is closing. Try again: another may have taken its place.'
      throw new HttpError(
        503,
        'draining',
        new LeaseholdError('UNAVAILABLE', message, { reason: 'draining', retryAfterMs }),
      )
    }
    return authorize(request, this.accessPolicy, seen)
  }

  /** Refuses a stream too many. From now on it counts as a stream of its token, and not as a call. */
  #countStream({ body }: Answer, call: RunningCall): void {
    if (!isFeed(body)) return
    const { streamsMax } = this.accessPolicy.limits
    if (this.#streams.size >= streamsMax) throw tooMuch(`There are ${streamsMax} streams already.`, retryAfterMs)
    requireSocket(call.response, 'A stream')
    if (call.token === undefined) return
    const share = this.#streamShares.take(call.token)
    if (share === undefined) {
      this.#metrics.quotaRefused('streams')
      throw tooMuch('This token has as many streams as it may have.', retryAfterMs)
    }
    call.share?.[Symbol.dispose]()
    call.share = share
  }

  #failed(error: unknown, seen: SeenCall, { url = '' }: IncomingMessage): Answer {
    // No fault of the server, and nobody hears of it.
    const refusal = error === callerGone ? invalid('The caller has gone.', 400, 'body') : httpErrorOf(error)
    if (refusal === undefined) {
      const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
      this.#logger?.warn(`${seen.route} failed: ${redactedText(text)}`)
    } else {
      this.#metrics.refused(refusal.why)
      this.#noteRefusal(refusal, seen)
    }
    const shown = refusal ?? internalFault
    return this.accessPolicy.router.answersProblems(url) ? shown.problem : shown.answer
  }

  /** Records a call that was refused for who made it, or how often. */
  #noteRefusal(refusal: HttpError, { route, address, by }: SeenCall): void {
    if (!audited.has(refusal.why) || refusal instanceof RequestsRefused) return
    const isSignIn = refusal instanceof SignInError
    this.#audit?.refusal({
      event: isSignIn ? 'sign-in-failed' : 'refused',
      by: isSignIn ? refusal.tokenName : by,
      from: address,
      route,
      why: plainMessageOf(refusal.error),
    })
  }

  /** Records a client that was refused for its certificate, or for the lack of one. */
  #noteHandshake(error: NodeJS.ErrnoException, socket: Duplex): void {
    if (this.#tls?.clientCa === undefined) return
    const { remoteAddress } = socket as Duplex & { readonly remoteAddress?: string }
    this.#audit?.refusal({ event: 'sign-in-failed', from: remoteAddress, why: `TLS: ${error.code ?? 'failed'}` })
  }

  #answer(call: RunningCall, { status, headers, body, onUnsent }: Answer): void {
    const { request, response } = call
    if (response.destroyed) return onUnsent?.()
    if (onUnsent !== undefined) response.once('close', () => void (response.writableFinished || onUnsent()))
    const isStream = isFeed(body)
    const length = isStream ? 0 : Buffer.byteLength(body)
    // The bytes of a fixed answer are shared.
    call.holding?.set(typeof body === 'string' ? length : 0)
    if (response.destroyed || request.socket.destroyed) return
    // What was not read of a body would be taken for the next call; and a stream ends with its connection.
    const isLast =
      this.#isDraining || !request.complete || isStream || call.isOpen || !this.#current.has(request.socket)
    response.writeHead(status, {
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      ...headers,
      ...this.accessPolicy.origins.headersFor(request),
      ...(isLast && { connection: 'close' }),
      ...(!isStream && status !== 204 && { 'content-length': length }),
    })
    if (!isStream) return writeAnswer(response, body, this.accessPolicy.limits.readWithinMs, this.#unread)
    // The head is a write of its own: of one that is put together with the body, Node keeps all the pieces as long as the stream lasts. Both
    // are sent at once, and neither if the stream fails as it begins.
    response.cork()
    response.flushHeaders()
    const stream = new EventStream(call, this.#streamEvents)
    call.stream = stream
    this.#streams.add(stream)
    this.#metrics.streamsUnderWay = this.#streams.size
    stream.start(body)
    response.uncork()
  }
}

/** Whether a call may wait for a lock, and so takes no place among the calls under way. */
function waits({ route, query }: AuthorizedCall): boolean {
  return route.waits?.(query) === true
}

/** A pipelined call has no socket yet, so we would not learn when its connection is gone. */
function requireSocket({ socket }: ServerResponse, subject: string): void {
  if (socket === null) throw invalid(`${subject} needs a connection of its own.`, 400, 'limit')
}

function cannotListen(host: string, port: number, error: NodeJS.ErrnoException): LeaseholdError {
  // Bun leaves the code out of its words.
  const why = error.code === undefined || error.message.includes(error.code) ? '' : `${error.code}: `
  const message = `The server cannot listen on ${host} port ${port}: ${why}${error.message}. Choose another host or port.`
  return new LeaseholdError('UNAVAILABLE', message, { cause: error, reason: 'configuration' })
}

/** Why a call was refused, where the audit tells of it: for who made it, from where, or how often. */
const audited: ReadonlySet<string> = new Set(['token', 'right', 'rate', 'host', 'limit'])
