import type { IncomingMessage, ServerResponse } from 'node:http'
import { LeaseholdError } from '../../core/errors.ts'
import { type AllowedOrigins, checkHost } from '../auth/origins.ts'
import type { Answer, Call, Principal, Route } from '../contract/call.ts'
import type { ServerLimits } from '../contract/limits.ts'
import { forbidden, invalid, HttpError } from '../contract/http-error.ts'
import { anybody, nobody, type TokenBook } from '../auth/tokens.ts'

/** Decides whether a call is allowed. */
export interface AccessPolicy {
  readonly router: Router
  readonly limits: ServerLimits
  /** Undefined: no token is needed, as only this machine can call. */
  readonly tokens: TokenBook | undefined
  /** The origins whose pages may call, from a browser. */
  readonly origins: AllowedOrigins
}

/** A call that may use its route. */
export interface AuthorizedCall {
  readonly route: Route
  readonly principal: Principal
  readonly query: URLSearchParams
}

/** Finds the route of a request. Throws HttpError if there is none, or if the token may not use it. */
export function authorize(request: IncomingMessage, { router, limits, tokens }: AccessPolicy): AuthorizedCall {
  if (tokens === undefined) checkHost(request.headers.host)
  const url = request.url ?? ''
  if (url.length > limits.urlLengthMax) {
    throw invalid(`The URL is longer than ${limits.urlLengthMax} characters.`, 414, 'limit')
  }
  const split = url.indexOf('?')
  const route = router.find(request.method ?? '', split < 0 ? url : url.slice(0, split))
  const query = new URLSearchParams(split < 0 ? '' : url.slice(split + 1))
  return { route, query, principal: admitted(route, request.headers.authorization, tokens) }
}

/** Reads the body of the request, and lets the route answer. */
export async function carryOut(
  request: IncomingMessage,
  response: ServerResponse,
  { route, principal, query }: AuthorizedCall,
  limits: ServerLimits,
): Promise<Answer> {
  const gone = new AbortController()
  response.once('close', () => gone.abort())
  const body = route.method === 'POST' ? await readBody(request, limits) : undefined
  const call: Call = { principal, headers: request.headers, query, body, signal: gone.signal }
  return route.handle(call)
}

function admitted({ right }: Route, authorization: string | undefined, tokens: TokenBook | undefined): Principal {
  if (tokens === undefined) return anybody
  if (right === 'anybody') return nobody
  const principal = tokens.find(authorization)
  if (principal === undefined) throw unauthorized(authorization)
  if (right === 'token' || principal.rights.has(right)) return principal
  throw forbidden(`The token ${JSON.stringify(principal.name)} lacks the right '${right}'.`)
}

function unauthorized(authorization: string | undefined): HttpError {
  const message =
    authorization === undefined
      ? 'This server wants a token. Send it as Authorization: Bearer TOKEN.'
      : 'This server does not know the token.'
  const error = new LeaseholdError('UNAVAILABLE', message, { reason: 'auth' })
  return new HttpError(401, 'token', error, { 'www-authenticate': 'Bearer' })
}

/** Finds the route of a call. */
export class Router {
  readonly #byPath = new Map<string, Map<string, Route>>()

  constructor(routes: readonly Route[]) {
    for (const route of routes) {
      let methods = this.#byPath.get(route.path)
      if (methods === undefined) this.#byPath.set(route.path, (methods = new Map()))
      if (methods.has(route.method)) {
        throw new LeaseholdError('INVALID', `There are two routes ${route.method} ${route.path}.`)
      }
      methods.set(route.method, route)
    }
  }

  /** Refuses with 404 where there is no such path, with 405 where it takes another method. */
  find(method: string, path: string): Route {
    const methods = this.#byPath.get(path)
    if (methods === undefined) {
      throw refuse(404, `There is nothing at ${path}. GET /openapi.json says what there is.`)
    }
    const route = methods.get(method)
    if (route !== undefined) return route
    const allowed = [...methods.keys()].join(', ')
    throw refuse(405, `${path} takes ${allowed}, not ${method}.`, { allow: allowed })
  }
}

function refuse(status: number, message: string, headers: Readonly<Record<string, string>> = {}): HttpError {
  return new HttpError(status, 'route', new LeaseholdError('INVALID', message), headers)
}

/** Reads the JSON that a POST came with, up to the limits of size and time. */
export async function readBody(request: IncomingMessage, limits: ServerLimits): Promise<unknown> {
  const type = (request.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase()
  // Pages of other sites can make a browser send some other types without a preflight request.
  if (type !== 'application/json') throw invalid('A POST needs the header Content-Type: application/json.', 415, 'body')
  const bytes = await readBytes(request, limits)
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    throw invalid('The body is not JSON.', 400, 'body')
  }
}

function readBytes(request: IncomingMessage, { bodyBytesMax, bodyWithinMs }: ServerLimits): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const pieces: Buffer[] = []
    let length = 0
    const timer = setTimeout(() => {
      settle()
      reject(invalid(`The body did not arrive within ${bodyWithinMs} ms.`, 408, 'body'))
    }, bodyWithinMs)
    const take = (piece: Buffer): void => {
      length += piece.length
      pieces.push(piece)
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
      reject(invalid('The body broke off.', 400, 'body'))
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

function tooLong(bytesMax: number): Error {
  return invalid(`The body is longer than ${bytesMax} bytes. Send less at once.`, 413, 'body')
}
