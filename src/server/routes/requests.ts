import { statusesReply, toWireStatus, sessionHeader } from '../../core/wire/replies.ts'
import type { Request } from '../../core/contract/driver.ts'
import { keyOf } from '../../core/contract/requests.ts'
import { readableStatus } from '../auth/readable-names.ts'
import { json, type Route } from '../contract/call.ts'
import type { ServerLimits } from '../contract/limits.ts'
import { callBody } from '../../core/wire/requests.ts'
import { checked } from '../../core/wire/schema.ts'
import type { AuthorizedStore } from '../store/authorized-store.ts'
import { sessionOf } from '../store/sessions.ts'
import type { StoreDescription } from '../store/store-description.ts'
import { publicFault } from '../store/store-fault.ts'

/** A call with more requests than this takes a turn of its own for each of its steps, so that others are answered in between. */
const requestsPerTurn = 100

/** What the route needs. */
export interface RequestsRouteParts {
  readonly store: AuthorizedStore
  readonly limits: ServerLimits
  readonly description: StoreDescription
}

/** `POST /v1/requests`: what `send` of a driver is in a process. */
export function requestsRoute({ store, limits, description }: RequestsRouteParts): Route {
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
    async handle(call) {
      const session = sessionOf(call.headers, call.principal)
      const { requests } = checked(bodySchema, call.body)
      call.charge(requests.length - 1)
      const isLong = requests.length > requestsPerTurn
      if (isLong) await call.turn()
      const statuses = await store.sendFor(call, requests, { session })
      if (isLong) await call.turn()
      const wired = statuses.map((status, index) => {
        const readable = readableStatus(status, keyOf(requests[index] as Request), call.principal)
        return toWireStatus(readable, publicFault)
      })
      return json({ statuses: wired }, 200, description.headers)
    },
  }
}
