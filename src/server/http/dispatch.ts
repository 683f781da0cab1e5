import type { IncomingMessage } from 'node:http'
import { LeaseholdError } from '../../core/errors.ts'
import type { Authenticator } from '../auth/authenticator.ts'
import { type AllowedOrigins, checkHost } from '../auth/origins.ts'
import { bytesPerRequest, type RateLimits } from '../auth/rate-limits.ts'
import type { Answer, Caller, Route } from '../contract/call.ts'
import type { ServerLimits } from '../contract/limits.ts'
import { forbidden, invalid, HttpError } from '../contract/http-error.ts'
import { anybody, nobody, type SignIn } from '../auth/tokens.ts'
import type { CallEnd } from './call-end.ts'
import type { TrustedProxies } from './caller-address.ts'
import { hasMoreParts } from './json-parts.ts'
import { certificateNamesOf } from './tls.ts'

/** Decides whether a call is allowed. */
export interface AccessPolicy {
  readonly router: Router
  readonly limits: ServerLimits
  /** Undefined: no token is needed, as only this machine can call. */
  readonly authenticator: Authenticator | undefined
  readonly rates: RateLimits
  /** The origins whose pages may call, from a browser. */
  readonly origins: AllowedOrigins
  readonly proxies: TrustedProxies
}

/** What is known of a call, for the metrics and the audit, however far it gets. */
export interface SeenCall {
  /** The path of its route. */
  route: string
  readonly address: string
  /** The name of the token. */
  by: string | undefined
}

/** A call that may use its route. */
export interface AuthorizedCall extends Caller {
  readonly route: Route
  readonly query: URLSearchParams
  /** Undefined where no token is asked for. */
  readonly signIn: SignIn | undefined
  readonly parameters: Readonly<Record<string, string>>
}

/** Finds the route of a request. Rejects with HttpError if there is none, or if the token may not use it. */
export async function authorize(
  request: IncomingMessage,
  { router, limits, authenticator, rates }: AccessPolicy,
  seen: SeenCall,
): Promise<AuthorizedCall> {
  const { address } = seen
  const url = request.url ?? ''
  const path = pathOf(url)
  const { route, parameters } = counted(
    () => {
      if (authenticator === undefined) checkHost(request.headers.host)
      checkHead(request, limits)
      return router.find(request.method ?? '', path)
    },
    () => rates.checkAddress(address),
  )
  seen.route = route.path
  const query = new URLSearchParams(url.slice(path.length + 1))
  const found = { route, query, parameters, address }
  if (authenticator === undefined || route.right === 'anybody') {
    return { ...found, signIn: undefined, principal: authenticator === undefined ? anybody : nobody }
  }
  const { authorization } = request.headers
  const signIn = await authenticator.signIn({ authorization, certificateNames: certificateNamesOf(request.socket) })
  const { principal, rate } = signIn
  seen.by = principal.name
  rates.checkToken(principal.name, rate)
  if (route.right !== 'token' && !principal.rights.has(route.right)) {
    throw forbidden(`The token ${JSON.stringify(principal.name)} lacks the right '${route.right}'.`)
  }
  return { ...found, signIn, principal }
}

/** Refuses what no route is asked about. */
function checkHead({ url = '', headers }: IncomingMessage, { urlLengthMax }: ServerLimits): void {
  if (url.length > urlLengthMax) throw invalid(`The URL is longer than ${urlLengthMax} characters.`, 414, 'limit')
  if (headers.expect === undefined || /^100-continue$/i.test(headers.expect)) return
  throw invalid('Of the header Expect only 100-continue is understood.', 417)
}

/** Every call counts against the rate of its address, those to no route too, except what operators must always get an answer to. */
function counted(find: () => FoundRoute, count: () => void): FoundRoute {
  let found: FoundRoute | undefined
  try {
    found = find()
    return found
  } finally {
    if (found?.route.always !== true) count()
  }
}

/** How a call is carried out. */
export interface CarryOutOptions {
  /** Its signal aborts when the answer is of no use any more. */
  readonly over: Pick<CallEnd, 'signal' | 'throwIfRefused'>
  /** Learns how many bytes of the body have arrived. */
  readonly received: (bytes: number) => void
  /**
   * Called when the body is there, and not read yet: before that a call costs only what has arrived of it. Resolves when it is its
   * caller's turn, and rejects if there are too many calls.
   */
  readonly admit: (bodyBytes: number) => Promise<void>
  /** As `turn` of a call. */
  readonly turn: () => Promise<void>
}

/** A body longer than this is parsed in one turn of the event loop and checked in another, so that others are answered in between. */
const bytesPerTurn = 65_536

/** Reads the body of the request, and lets the route answer. */
export async function carryOut(
  request: IncomingMessage,
  { route, principal, address, query, parameters }: AuthorizedCall,
  { limits, rates }: Pick<AccessPolicy, 'limits' | 'rates'>,
  { over, received, admit, turn }: CarryOutOptions,
): Promise<Answer> {
  // A body costs, whether it ever ends or not: a token pays for it while it arrives.
  let paidBytes = 0
  const arrived = (length: number): void => {
    received(length)
    const parts = Math.floor((length - paidBytes) / bytesPerRequest)
    if (parts === 0) return
    paidBytes += parts * bytesPerRequest
    rates.chargeToken(principal.name, parts)
  }
  const bytes = hasBody(route, request) ? await readBody(request, limits, arrived) : undefined
  await admit(bytes?.length ?? 0)
  // The body may have been long on its way, or the call have waited for its turn.
  over.throwIfRefused()
  const body = bytes && parsed(bytes, limits)
  if (bytes !== undefined && bytes.length > bytesPerTurn) await turn()
  const charge = (requests: number): void => rates.chargeToken(principal.name, requests)
  return route.handle({
    principal,
    address,
    headers: request.headers,
    query,
    parameters,
    body,
    charge,
    turn,
    get signal() {
      return over.signal
    },
  })
}

function hasBody(
  { method, takesBody = method === 'POST' ? 'required' : 'none' }: Route,
  request: IncomingMessage,
): boolean {
  if (takesBody !== 'optional') return takesBody === 'required'
  const { 'content-length': length, 'transfer-encoding': encoding } = request.headers
  return encoding !== undefined || Number(length ?? 0) > 0
}

/** The path of a URL as it came. */
function pathOf(url: string): string {
  const split = url.indexOf('?')
  return split < 0 ? url : url.slice(0, split)
}

/** The routes of one path, and how to recognise it if it has parts. */
interface PathEntry {
  readonly pattern: RegExp | undefined
  readonly methods: Map<string, Route>
}

/** A route, and what stands in the path for its parts. */
interface FoundRoute {
  readonly route: Route
  readonly parameters: Readonly<Record<string, string>>
}

/** Finds the route of a call. */
export class Router {
  readonly #byPath = new Map<string, PathEntry>()
  /** How the paths begin whose errors are problem documents. */
  readonly #problemPrefixes: readonly string[]

  constructor(routes: readonly Route[]) {
    for (const route of routes) {
      let entry = this.#byPath.get(route.path)
      if (entry === undefined)
        this.#byPath.set(route.path, (entry = { pattern: patternOf(route.path), methods: new Map() }))
      if (entry.methods.has(route.method)) {
        throw new LeaseholdError('INVALID', `There are two routes ${route.method} ${route.path}.`)
      }
      entry.methods.set(route.method, route)
    }
    this.#problemPrefixes = routes
      .filter(({ problems }) => problems === true)
      .map(({ path }) => path.split('{', 1)[0] ?? '')
  }

  /** Refuses with 404 where there is no such path, with 405 where it takes another method. */
  find(method: string, path: string): FoundRoute {
    const entries = this.#entriesFor(path)
    for (const { pattern, methods } of entries) {
      const route = methods.get(method)
      if (route !== undefined) return { route, parameters: pattern === undefined ? {} : partsOf(pattern, path) }
    }
    if (entries.length === 0) throw refuse(404, `There is nothing at ${path}. GET /openapi.json says what there is.`)
    const allowed = entries.flatMap(({ methods }) => [...methods.keys()]).join(', ')
    throw refuse(405, `${path} takes ${allowed}, not ${method}.`, { allow: allowed })
  }

  /** Whether errors of a call to this URL are problem documents, whether there is a route or not. */
  answersProblems(url: string): boolean {
    return this.#problemPrefixes.some((prefix) => url.startsWith(prefix))
  }

  #entriesFor(path: string): readonly PathEntry[] {
    const entry = this.#byPath.get(path)
    // A path that has braces in it is no path of ours.
    if (entry !== undefined && entry.pattern === undefined) return [entry]
    return [...this.#byPath.values()].filter(({ pattern }) => pattern?.test(path) === true)
  }
}

/** Undefined: the path has no parts. The last of several parts takes all that is left, as a name may have slashes in it. */
function patternOf(path: string): RegExp | undefined {
  if (!path.includes('{')) return undefined
  const last = path.lastIndexOf('{')
  const parts = path.replaceAll(
    /\{(\w+)\}/g,
    (_, name: string, at: number) => `(?<${name}>${at === last ? '.+' : '[^/]+'})`,
  )
  return new RegExp(`^${parts}$`, 's')
}

function partsOf(pattern: RegExp, path: string): Readonly<Record<string, string>> {
  const groups = pattern.exec(path)?.groups ?? {}
  try {
    return Object.fromEntries(Object.entries(groups).map(([name, text]) => [name, decodeURIComponent(text)]))
  } catch {
    throw invalid(`${path} is not well encoded.`)
  }
}

function refuse(status: number, message: string, headers: Readonly<Record<string, string>> = {}): HttpError {
  return new HttpError(status, 'route', new LeaseholdError('INVALID', message), headers)
}

/** Reads the JSON that a call came with, up to the limits of size and time. */
async function readBody(
  request: IncomingMessage,
  limits: ServerLimits,
  received: CarryOutOptions['received'],
): Promise<Buffer> {
  const type = (request.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase()
  // Pages of other sites can make a browser send some other types without a preflight request.
  if (type !== 'application/json') throw invalid('A body needs the header Content-Type: application/json.', 415, 'body')
  return arrivedBytes(request, limits, received) ?? readBytes(request, limits, received)
}

/** The whole body, if it came together with the head, as small ones do: no timer and no listeners are needed then. */
function arrivedBytes(
  request: IncomingMessage,
  { bodyBytesMax }: ServerLimits,
  received: CarryOutOptions['received'],
): Buffer | undefined {
  const length = Number(request.headers['content-length'])
  if (!(length > 0 && length <= bodyBytesMax) || request.readableLength !== length) return undefined
  received(length)
  return (request.read(length) as Buffer | null) ?? undefined
}

function parsed(bytes: Buffer, { partsPerCallMax }: ServerLimits): unknown {
  if (hasMoreParts(bytes, partsPerCallMax)) {
    throw invalid(`The body has more than ${partsPerCallMax} values in it. Send less at once.`, 413, 'body')
  }
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    throw invalid('The body is not JSON.', 400, 'body')
  }
}

function readBytes(
  request: IncomingMessage,
  { bodyBytesMax, bodyWithinMs }: ServerLimits,
  received: CarryOutOptions['received'],
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    // Its caller went while it was checked who that is: nothing tells of it any more.
    if (request.destroyed) return reject(brokenOff())
    const pieces: Buffer[] = []
    let length = 0
    const timer = setTimeout(() => {
      settle()
      reject(invalid(`The body did not arrive within ${bodyWithinMs} ms.`, 408, 'body'))
    }, bodyWithinMs)
    const take = (piece: Buffer): void => {
      length += piece.length
      pieces.push(piece)
      received(length)
      if (length <= bodyBytesMax) return
      settle()
      reject(tooLong(bodyBytesMax))
    }
    const end = (): void => {
      settle()
      resolve(Buffer.concat(pieces))
    }
    const gone = (): void => {
      settle()
      reject(brokenOff())
    }
    const settle = (): void => {
      clearTimeout(timer)
      request.off('data', take).off('end', end).off('close', gone).off('error', gone).pause()
    }
    if (Number(request.headers['content-length']) > bodyBytesMax) {
      clearTimeout(timer)
      reject(tooLong(bodyBytesMax))
      return
    }
    request.on('data', take).once('end', end).once('close', gone).once('error', gone)
  })
}

function brokenOff(): Error {
  return invalid('The body broke off.', 400, 'body')
}

function tooLong(bytesMax: number): Error {
  return invalid(`The body is longer than ${bytesMax} bytes. Send less at once.`, 413, 'body')
}
