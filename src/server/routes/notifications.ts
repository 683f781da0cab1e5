import { events } from '../answer.ts'
import type { Route } from '../call.ts'
import { invalid } from '../http-error.ts'
import { sessionHeader } from '../../core/wire/wire-protocol.ts'
import { sessionOf } from '../session-name.ts'
import type { Sessions } from '../sessions.ts'

/** `GET /v1/notifications`: what `listen` of a driver is in a process. */
export function notificationsRoute(sessions: Sessions): Route {
  return {
    method: 'GET',
    path: '/v1/notifications',
    right: 'lock',
    summary: 'Tells a session, as server-sent events, how its claims stand when that changes without its asking.',
    schema: {
      headers: { [sessionHeader]: { type: 'string' } },
      required: [sessionHeader],
      answer: { type: 'string' },
      answerType: 'text/event-stream',
    },
    handle({ headers, grant }) {
      const session = sessionOf(headers, grant)
      if (session === undefined) throw invalid(`News is for a session. Send the header ${sessionHeader}.`)
      return events(sessions.stream(session))
    },
  }
}
