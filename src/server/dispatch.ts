import type { IncomingMessage, ServerResponse } from 'node:http'
import { LeaseholdError } from '../core/errors.ts'
import type { AllowedOrigins } from './allowed-origins.ts'
import { readBody } from './body.ts'
import type { Answer, Call, Grant, Route } from './call.ts'
import type { Limits } from './limits.ts'
import { forbidden, invalid, HttpError } from './http-error.ts'
import type { Router } from './router.ts'
import { everything, nothing, type TokenBook } from './tokens.ts'
import { checkHost } from './host-check.ts'

/** What decides whether a call is let in. */
export interface AccessPolicy {
  readonly router: Router
  readonly limits: Limits
  /** Undefined: no tokens are asked for, as only this machine can call. */
  readonly tokens: TokenBook | undefined
  /** Whose pages may call, from a browser. */
  readonly origins: AllowedOrigins
}

/** A call that has been let in as far as its route. */
export interface AuthorizedCall {
  readonly route: Route
  readonly grant: Grant
  readonly query: URLSearchParams
}

/** Finds the route of a request and whether it may take it. Refuses otherwise. */
export function enter(request: IncomingMessage, { router, limits, tokens }: AccessPolicy): AuthorizedCall {
  if (tokens === undefined) checkHost(request.headers.host)
  const url = request.url ?? ''
  if (url.length > limits.urlLengthMax) {
    throw invalid(`The URL is longer than ${limits.urlLengthMax} characters.`, 414, 'limit')
  }
  const split = url.indexOf('?')
  const route = router.find(request.method ?? '', split < 0 ? url : url.slice(0, split))
  const query = new URLSearchParams(split < 0 ? '' : url.slice(split + 1))
  return { route, query, grant: admitted(route, request.headers.authorization, tokens) }
}

/** Reads the rest of the request and has the route answer it. */
export async function carryOut(
  request: IncomingMessage,
  response: ServerResponse,
  { route, grant, query }: AuthorizedCall,
  limits: Limits,
): Promise<Answer> {
  const gone = new AbortController()
  response.once('close', () => gone.abort())
  const body = route.method === 'POST' ? await readBody(request, limits) : undefined
  const call: Call = { grant, headers: request.headers, query, body, signal: gone.signal }
  return route.handle(call)
}

function admitted({ right }: Route, authorization: string | undefined, tokens: TokenBook | undefined): Grant {
  if (tokens === undefined) return everything
  if (right === 'anybody') return nothing
  const grant = tokens.find(authorization)
  if (grant === undefined) throw unauthorized(authorization)
  if (right === 'token' || grant.rights.has(right)) return grant
  throw forbidden(`The token ${JSON.stringify(grant.name)} lacks the right '${right}'.`)
}

function unauthorized(authorization: string | undefined): HttpError {
  const message =
    authorization === undefined
      ? 'This server wants a token. Send it as Authorization: Bearer TOKEN.'
      : 'This server does not know the token.'
  const error = new LeaseholdError('UNAVAILABLE', message, { reason: 'auth' })
  return new HttpError(401, 'token', error, { 'www-authenticate': 'Bearer' })
}
