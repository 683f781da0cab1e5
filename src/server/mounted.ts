import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import type { Logger } from '../api/client/logger.ts'
import { driverFor } from '../api/stores/connect-driver.ts'
import type { LockDriver } from '../core/contract/driver.ts'
import { requireLeaseLifetime } from '../core/contract/supports.ts'
import { LeaseholdError } from '../core/errors.ts'
import type { Environment } from '../core/time/environment.ts'
import { toWireStatus } from '../core/wire/replies.ts'
import { checkGrant, principalWith } from './auth/grants.ts'
import { isFeed, type Answer, type Call, type EventFeed, type Principal, type Route } from './contract/call.ts'
import { forbidden, HttpError, httpErrorOf, internalFault, invalid, tooMuch } from './contract/http-error.ts'
import { resolveLimits } from './contract/limits.ts'
import { EventStream } from './http/event-stream.ts'
import { AuthorizedStore } from './store/authorized-store.ts'
import { ClaimQuotas } from './store/claim-quotas.ts'
import { ServerMetrics } from './store/metrics.ts'
import { Sessions } from './store/sessions.ts'
import { compositionName, FaultLog, StoreFacade, type StoreAccess } from './store/store-facade.ts'
import { publicFault } from './store/store-fault.ts'

/** Somebody whom the server around the dashboard has let in. */
export interface DashboardViewer {
  /** For the audit of evictions. */
  readonly name: string
  /**
   * What the viewer may do.
   *
   * @default ['read']
   */
  readonly rights?: readonly ('read' | 'evict')[] | undefined
  /**
   * The namespaces whose locks the viewer may see.
   *
   * @default '*', all of them
   */
  readonly namespaces?: readonly string[] | '*' | undefined
}

/** Who makes a call, by the request as the framework gives it: Express's and Fastify's own, or a `Request`. Undefined: nobody who may look. */
export interface ViewerOf {
  viewer(this: void, request: object): DashboardViewer | undefined | Promise<DashboardViewer | undefined>
}

/** What is needed of a Fastify instance. */
export interface FastifyInstanceLike {
  removeAllContentTypeParsers(): unknown
  addContentTypeParser(
    type: string,
    parser: (request: unknown, payload: unknown, done: (error: Error | null) => void) => void,
  ): unknown
  all(path: string, handler: (request: FastifyRequestLike, reply: FastifyReplyLike) => void): unknown
  readonly prefix?: string | undefined
}

/** What is needed of a Fastify request. */
export interface FastifyRequestLike {
  readonly raw: IncomingMessage
}

/** What is needed of a Fastify reply. */
export interface FastifyReplyLike {
  readonly raw: ServerResponse
  hijack(): unknown
}

/** A dashboard inside another server. Each of its ways in may be passed on as it is. */
export interface MountedDashboard {
  /** For Express and `node:http`: `app.use('/locks', signIn, board.node)`. */
  readonly node: (request: IncomingMessage, response: ServerResponse, next?: (error?: unknown) => void) => void
  /** For Fastify: `app.register(board.fastify, { prefix: '/locks' })`. */
  readonly fastify: (instance: FastifyInstanceLike) => Promise<void>
  /** For Hono and everything else with web requests: `app.all('/locks/*', (c) => board.fetch(c.req.raw))`. */
  readonly fetch: (request: Request, viewer?: DashboardViewer) => Promise<Response>
  /** Ends the streams and closes the store. */
  readonly close: () => Promise<void>
}

/** What routes are mounted with. */
export interface MountRoutesOptions {
  readonly viewer?: ViewerOf['viewer'] | undefined
  readonly store?: string | undefined
  readonly driver?: LockDriver | undefined
  readonly logger?: Logger | undefined
  readonly environment: Environment
}

/** A call from whatever framework. */
interface MountedCall {
  readonly method: string
  /** Path and query, with whatever stands before ours. */
  readonly url: string
  /** The path that the dashboard is mounted at. Undefined: the framework does not say. */
  readonly mountedAt: string | undefined
  readonly headers: IncomingHttpHeaders
  readonly principal: Principal
  readonly address: string
  readonly signal: AbortSignal
  /** The JSON that it came with. */
  body(): Promise<unknown>
}

const bodyBytesMax = 65_536
const streamsMax = 200
/** A viewer that opens streams without end leaves those of others. */
const streamsPerViewerMax = 20
/** After so long a stream ends, and the page connects again: whoever has signed out meanwhile is not let in. */
const streamMs = 600_000
const commentMs = 15_000
const bufferedBytesMax = 262_144
const retryAfterMs = 1000

/** Opens the store, and makes handlers of the routes. @internal */
export async function mountRoutes(
  routesFor: (store: StoreAccess) => readonly Route[],
  options: MountRoutesOptions,
): Promise<MountedDashboard> {
  const { store, driver: given, logger, environment } = options
  if ((store === undefined) === (given === undefined)) {
    throw new LeaseholdError('INVALID', 'mountDashboard needs either a store or a driver.')
  }
  const driver = given ?? (await driverFor(store as string, { forOthers: true }))
  try {
    await driver.open()
    requireLeaseLifetime(driver, compositionName)
  } catch (error) {
    await driver.close().catch(() => {})
    throw error
  }
  const facade = facadeOf(driver, environment, logger)
  const mounted = new Mounted(routesFor(facade.authorized), facade.store, options)
  return {
    node: (request, response, next) => mounted.node(request, response, request, next),
    fastify: (instance) => mounted.fastify(instance),
    fetch: (request, viewer) => mounted.fetch(request, viewer),
    close: () => mounted.close(),
  }
}

/** The store as the routes of a server have it. */
function facadeOf(
  driver: LockDriver,
  environment: Environment,
  logger: Logger | undefined,
): { readonly store: StoreFacade; readonly authorized: StoreAccess } {
  const limits = resolveLimits({})
  const metrics = new ServerMetrics()
  const { claimsMax, claimsPerTokenMax } = limits
  const sessions = new Sessions(environment, { claimsMax, claimsPerTokenMax }, (status) =>
    toWireStatus(status, publicFault),
  )
  const quotas = new ClaimQuotas({ limits, environment, metrics })
  const store = new StoreFacade(driver, environment, {
    sessions,
    metrics,
    faults: new FaultLog(logger, environment),
    quotas,
  })
  const parts = { store, audit: undefined, quotas, marksClaims: false, environment }
  return { store, authorized: new AuthorizedStore(parts) }
}

const defaultViewer: DashboardViewer = { name: 'viewer' }

function principalOf({ name, rights = ['read'], namespaces = '*' }: DashboardViewer): Principal {
  return principalWith(name, [checkGrant({ rights, namespaces }, 'viewer')])
}

class Mounted {
  readonly #routes: readonly Route[]
  readonly #store: StoreFacade
  readonly #viewer: ViewerOf['viewer']
  readonly #logger: Logger | undefined
  readonly #streams = new Set<() => void>()
  /** Open streams by the name of the viewer. */
  readonly #streamsOf = new Map<string, number>()

  constructor(routes: readonly Route[], store: StoreFacade, { viewer, logger }: MountRoutesOptions) {
    this.#routes = routes
    this.#store = store
    this.#viewer = viewer ?? (() => defaultViewer)
    this.#logger = logger
  }

  /** `whose` is the request as the framework has it, `prefix` where it has mounted us if the request does not say. */
  node(
    request: IncomingMessage,
    response: ServerResponse,
    whose: object,
    next?: (error?: unknown) => void,
    prefix?: string,
  ): void {
    const {
      originalUrl,
      baseUrl: mountedAt,
      body,
    } = request as IncomingMessage & {
      readonly originalUrl?: string
      readonly baseUrl?: string
      readonly body?: unknown
    }
    const url = originalUrl ?? request.url ?? '/'
    const asked = { method: request.method ?? 'GET', url, mountedAt: mountedAt ?? prefix, headers: request.headers }
    if (next !== undefined && this.#place(asked) === undefined) return next()
    const gone = new AbortController()
    response.on('close', () => gone.abort())
    response.on('error', () => {})
    const call = {
      ...asked,
      address: request.socket.remoteAddress ?? '',
      signal: gone.signal,
      // Another middleware may have read it already.
      body: async () => body ?? parsed(await bytesOf(request)),
    }
    void this.#answer(call, whose).then((answer) => this.#write(answer, response))
  }

  async fastify(instance: FastifyInstanceLike): Promise<void> {
    // Ours is read by us. Parsers of the instance around this one stay.
    instance.removeAllContentTypeParsers()
    instance.addContentTypeParser('*', (_request, _payload, done) => done(null))
    for (const path of ['/', '/*']) {
      instance.all(path, (request, reply) => {
        reply.hijack()
        this.node(request.raw, reply.raw, request, undefined, instance.prefix?.replace(/\/$/, ''))
      })
    }
  }

  async fetch(request: Request, viewer?: DashboardViewer): Promise<Response> {
    const { pathname, search } = new URL(request.url)
    const call = {
      method: request.method,
      url: pathname + search,
      mountedAt: undefined,
      headers: Object.fromEntries(request.headers),
      address: '',
      signal: request.signal,
      body: async () => parsed(await bytesOf(request.body ?? [])),
    }
    const { status, headers, body } = await this.#answer(call, request, viewer)
    const sent = isFeed(body) ? this.#streamOf(body) : (body as string | Uint8Array<ArrayBuffer>)
    return new Response(status === 204 ? null : sent, { status, headers: { ...alwaysSent, ...headers } })
  }

  async close(): Promise<void> {
    for (const end of this.#streams) end()
    await this.#store.close(retryAfterMs)
  }

  /** Never rejects. */
  async #answer(call: Omit<MountedCall, 'principal'>, whose: object, given?: DashboardViewer): Promise<Answer> {
    try {
      const place = this.#place(call)
      if (place === undefined) throw nowhere(call.url)
      const viewer = given ?? (await this.#viewer(whose))
      if (viewer === undefined) throw forbidden('You may not look at the locks.')
      if (typeof place === 'string') return { status: 302, headers: { location: place }, body: '' }
      return await this.#handle(place, { ...call, principal: principalOf(viewer) })
    } catch (error) {
      const known = httpErrorOf(error)
      if (known === undefined)
        this.#logger?.warn(`the dashboard failed: ${error instanceof Error ? error.message : String(error)}`)
      return (known ?? internalFault).answer
    }
  }

  async #handle(route: Route, call: MountedCall): Promise<Answer> {
    const { principal, headers, address, signal } = call
    const { right, method } = route
    if (right !== 'anybody' && right !== 'token' && !principal.rights.has(right)) {
      throw forbidden(`${JSON.stringify(principal.name)} lacks the right '${right}'.`)
    }
    if (method !== 'GET') checkSameOrigin(headers)
    const carried: Call = {
      principal,
      address,
      headers,
      query: new URLSearchParams(call.url.split('?', 2)[1] ?? ''),
      parameters: {},
      body: method === 'GET' ? undefined : await call.body(),
      signal,
      charge: () => {},
      turn: () => new Promise((resolve) => void setImmediate(resolve)),
    }
    const answer = await route.handle(carried)
    const { body } = answer
    if (!isFeed(body)) return answer
    // A stream without a body would only take the place of another.
    if (call.method === 'HEAD') return { ...answer, body: '' }
    const { name } = principal
    if (this.#streams.size >= streamsMax || (this.#streamsOf.get(name) ?? 0) >= streamsPerViewerMax)
      throw tooMuch('There are too many streams.', retryAfterMs)
    return { ...answer, body: { attach: (send, end) => this.#counted(name, body.attach(send, end)) } }
  }

  #counted(viewer: string, attached: Disposable): Disposable {
    this.#streamsOf.set(viewer, (this.#streamsOf.get(viewer) ?? 0) + 1)
    return {
      [Symbol.dispose]: () => {
        const others = (this.#streamsOf.get(viewer) ?? 1) - 1
        if (others === 0) this.#streamsOf.delete(viewer)
        else this.#streamsOf.set(viewer, others)
        attached[Symbol.dispose]()
      },
    }
  }

  /**
   * The route of a URL. If the framework does not say where we are mounted, our paths are known by their ends. A text: where the page is, for
   * a URL that lacks the slash at its end. Undefined: nothing of ours.
   */
  #place({
    method,
    url,
    mountedAt,
    headers: { accept = '' },
  }: Pick<MountedCall, 'method' | 'url' | 'mountedAt' | 'headers'>): Route | string | undefined {
    const path = url.split('?', 1)[0] ?? ''
    const within = mountedAt !== undefined && path.startsWith(mountedAt) ? path.slice(mountedAt.length) : undefined
    const asked = method === 'HEAD' ? 'GET' : method
    const found = this.#routes.find(
      (route) =>
        route.method === asked &&
        route.path !== '/' &&
        (within === undefined ? path.endsWith(route.path) : within === route.path),
    )
    if (found !== undefined) return found
    if (asked !== 'GET') return undefined
    if (within === undefined ? path.endsWith('/') : within === '/')
      return this.#routes.find(({ path: at }) => at === '/')
    if (!accept.includes('text/html') || (within !== undefined && within !== '')) return undefined
    // A path and no more: without ./ the last part could be read as another scheme and host.
    return `./${(path.split('/').at(-1) ?? '').replaceAll('\\', '%5C')}/`
  }

  #write({ status, headers, body }: Answer, response: ServerResponse): void {
    if (response.destroyed) return
    response.writeHead(status, { ...alwaysSent, ...headers })
    if (!isFeed(body)) {
      response.end(body)
      return
    }
    const ended = (): void => {
      clearTimeout(timer)
      this.#streams.delete(end)
    }
    const events = { unread: () => {}, ended, readWithinMs: () => readWithinMs }
    const stream = new EventStream({ response, holding: undefined }, events)
    const end = (): void => stream.end()
    const timer = setTimeout(end, streamMs).unref()
    this.#streams.add(end)
    stream.start(body)
  }

  /** The same as a web stream. */
  #streamOf(feed: EventFeed): ReadableStream<Uint8Array> {
    let letGo = (): void => {}
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          const encoder = new TextEncoder()
          let attached: Disposable | undefined
          let isOver = false
          letGo = () => {
            isOver = true
            clearTimeout(life)
            clearInterval(comments)
            this.#streams.delete(end)
            attached?.[Symbol.dispose]()
          }
          const end = (): void => {
            if (isOver) return
            letGo()
            controller.close()
          }
          const write = (text: string): void => {
            if (isOver) return
            controller.enqueue(encoder.encode(text))
            // Not read: it would stay in memory.
            if ((controller.desiredSize ?? 0) < 0) end()
          }
          const life = setTimeout(end, streamMs).unref()
          const comments = setInterval(() => write(':\n\n'), commentMs).unref()
          this.#streams.add(end)
          write(':\n\n')
          attached = feed.attach((event, data) => write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`), end)
          if (isOver) attached[Symbol.dispose]()
        },
        cancel: () => letGo(),
      },
      { highWaterMark: bufferedBytesMax, size: ({ byteLength }) => byteLength },
    )
  }
}

/** How long what is left of a stream may wait to be read. */
const readWithinMs = 30_000
const alwaysSent = { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' }

/** The sign-in of the server around us may be a cookie, which a page of another site would send, too. */
function checkSameOrigin({
  'sec-fetch-site': site,
  origin,
  host,
  'content-type': type = '',
}: IncomingHttpHeaders): void {
  const isOurs = site === undefined ? origin === undefined || hostOf(origin) === host : site === 'same-origin'
  if (!isOurs) throw forbidden('This may be asked by the page itself only, not by that of another site.')
  if (/^application\/json\s*(?:;|$)/i.test(type)) return
  throw invalid('A body needs the header Content-Type: application/json.', 415, 'body')
}

function hostOf(origin: string): string {
  return URL.canParse(origin) ? new URL(origin).host : ''
}

async function bytesOf(source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<Buffer> {
  const pieces: Uint8Array[] = []
  let length = 0
  for await (const piece of source) {
    length += piece.length
    if (length > bodyBytesMax) throw invalid(`The body is longer than ${bodyBytesMax} bytes.`, 413, 'body')
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}

function parsed(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    throw invalid('The body is not JSON.', 400, 'body')
  }
}

function nowhere(url: string): HttpError {
  const path = url.split('?', 1)[0] ?? ''
  return new HttpError(404, 'route', new LeaseholdError('INVALID', `The dashboard has nothing at ${path}.`))
}
