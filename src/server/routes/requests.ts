import type { Request, ClaimStatus } from '../../core/contract/driver.ts'
import { LeaseholdError } from '../../core/errors.ts'
import type { Environment } from '../../core/time/environment.ts'
import { statusesReply, toWireStatus, type WireStatus, sessionHeader } from '../../core/wire/replies.ts'
import { json, type Principal, type Route } from '../contract/call.ts'
import type { ServerLimits } from '../contract/limits.ts'
import { callBody } from '../../core/wire/requests.ts'
import { checked } from '../../core/wire/schema.ts'
import { HttpError } from '../contract/http-error.ts'
import { lackFor } from '../auth/rights.ts'
import { sessionOf } from '../store/sessions.ts'
import { type StoreDescription, unsupportedIn } from '../store/store-description.ts'
import type { StoreFacade } from '../store/store-facade.ts'

/** What the route needs. */
export interface RequestsRouteParts {
  readonly store: StoreFacade
  readonly limits: ServerLimits
  readonly description: StoreDescription
  /** Writes the name of the token into the metadata of claims. */
  readonly marksClaims: boolean
  readonly environment: Pick<Environment, 'wall'>
}

/** `POST /v1/requests`: what `send` of a driver is in a process. */
export function requestsRoute({ store, limits, description, marksClaims, environment }: RequestsRouteParts): Route {
  const bodySchema = callBody(limits.requestsPerCallMax)
  return {
    method: 'POST',
    path: '/v1/requests',
    right: 'token',
    summary: 'Carries out requests, in order within a key, and answers each in its place.',
    schema: {
      headers: {
        [sessionHeader]: { type: 'string', description: 'The session to notify of what is claimed or renewed.' },
      },
      body: bodySchema,
      answer: statusesReply,
    },
    async handle({ principal, headers, body }) {
      const session = sessionOf(headers, principal)
      const { requests } = checked(bodySchema, body)
      const { supports } = store
      const unsupported = requests.map((request, index) => unsupportedIn(request, index, supports))
      // Here and below: what others of the same call ask for is not to suffer.
      if (unsupported[0] !== undefined && !unsupported.includes(undefined)) throw unsupported[0]
      const wallMs = environment.wall()
      const unallowed = requests.map((request) => lackFor(request, principal, wallMs))
      if (unallowed[0] !== undefined && !unallowed.includes(undefined)) throw new HttpError(403, 'right', unallowed[0])
      const lacks = requests.map((_, index) => unallowed[index] ?? unsupported[index])
      const allowed = requests.filter((_, index) => lacks[index] === undefined)
      const marked = marksClaims ? allowed.map((request) => withVia(request, principal)) : allowed
      const statuses = [...(await store.send(marked, session))]
      for (const [index, request] of marked.entries()) {
        if (request.op === 'evict') store.evictionAsked({ principal, request, status: statuses[index] as ClaimStatus })
      }
      const wired = lacks.map((lack): WireStatus =>
        toWireStatus(
          lack === undefined ? (statuses.shift() as ClaimStatus) : { state: 'unknown', error: lack },
          describeFault,
        ),
      )
      return json({ statuses: wired }, 200, description.headers)
    },
  }
}

/** Says only that the store failed: the log has the rest. */
export function describeFault(): LeaseholdError {
  return new LeaseholdError('UNAVAILABLE', "The store failed. The server's log says how.", { reason: 'store' })
}

/** Operators see by whose token a claim was made: what a runner says of itself proves nothing. */
function withVia(request: Request, { name }: Principal): Request {
  if (request.op !== 'claim') return request
  const { claim } = request
  const { runner } = claim
  return { op: 'claim', claim: { ...claim, runner: { ...runner, metadata: { ...runner.metadata, via: name } } } }
}
