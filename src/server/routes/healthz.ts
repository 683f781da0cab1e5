import { json } from '../answer.ts'
import type { Route } from '../call.ts'
import type { Health } from '../health.ts'

/** `GET /healthz`: for whoever decides where to send calls. A draining server refuses all calls, this one too. */
export function healthzRoute(health: Health): Route {
  return {
    method: 'GET',
    path: '/healthz',
    right: 'anybody',
    summary: 'Answers 200 while calls can be carried out, 503 when the store does not answer or the server closes.',
    schema: {
      answer: {
        type: 'object',
        required: ['status'],
        properties: { status: { type: 'string', enum: ['ok', 'store-down'] } },
      },
    },
    async handle() {
      return (await health.isUp()) ? json({ status: 'ok' }) : json({ status: 'store-down' }, 503)
    },
  }
}
