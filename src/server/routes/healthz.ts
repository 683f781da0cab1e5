import { LeaseholdError } from '../../core/errors.ts'
import { json } from '../answer.ts'
import type { Route } from '../call.ts'
import type { Health } from '../health.ts'
import { HttpError } from '../http-error.ts'

/** `GET /healthz`: for whoever decides where to send calls. A draining server refuses all calls, this one too. */
export function healthzRoute(health: Health): Route {
  return {
    method: 'GET',
    path: '/healthz',
    right: 'anybody',
    always: true,
    summary: 'Answers 200 while calls can be carried out, 503 when the store does not answer or the server closes.',
    schema: {
      answer: {
        type: 'object',
        required: ['status'],
        properties: { status: { const: 'ok' } },
        additionalProperties: false,
      },
    },
    async handle() {
      if (await health.isUp()) return json({ status: 'ok' })
      const error = new LeaseholdError('UNAVAILABLE', 'The store does not answer.', { reason: 'store' })
      throw new HttpError(503, 'store', error)
    },
  }
}
