import { json, type Route, events } from '../contract/call.ts'
import type { StoreDescription } from '../store/store-description.ts'
import type { StoreFacade } from '../store/store-facade.ts'
import { invalid } from '../contract/http-error.ts'
import { sessionHeader, storeReply } from '../../core/wire/replies.ts'
import { sessionOf, type Sessions } from '../store/sessions.ts'

/** `GET /v1/store`: what is behind this server. */
export function storeRoute(store: StoreFacade, description: StoreDescription): Route {
  return {
    method: 'GET',
    path: '/v1/store',
    right: 'token',
    summary: 'Says what the store behind this server is and can do, and for how long it has kept its data.',
    schema: { answer: storeReply },
    async handle() {
      const dataAgeMs = await store.dataAgeMs()
      // JSON has no Infinity: null stands for it. Absent: the store does not say.
      const age = { dataAgeMs: dataAgeMs === Infinity ? null : dataAgeMs }
      return json({ ...description.fields, ...age }, 200, description.headers)
    },
  }
}

/** `GET /v1/notifications`: what `listen` of a driver is in a process. */
export function notificationsRoute(sessions: Sessions): Route {
  return {
    method: 'GET',
    path: '/v1/notifications',
    right: 'lock',
    summary:
      'Notifies a session, by server-sent events, when the status of one of its claims changes without its asking.',
    schema: {
      headers: { [sessionHeader]: { type: 'string' } },
      required: [sessionHeader],
      answer: { type: 'string' },
      answerType: 'text/event-stream',
    },
    handle({ headers, principal }) {
      const session = sessionOf(headers, principal)
      if (session === undefined) throw invalid(`Notifications are for a session. Send the header ${sessionHeader}.`)
      return events(sessions.stream(session, principal))
    },
  }
}
