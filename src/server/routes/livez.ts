import { json } from '../answer.ts'
import type { Route } from '../call.ts'

/**
 * `GET /livez`: for whoever restarts a server that hangs. Does not ask the store: a restart would not bring a store back,
 * and would cost every client its stream.
 */
export const livezRoute: Route = {
  method: 'GET',
  path: '/livez',
  right: 'anybody',
  always: true,
  summary: 'Answers 200 while the server runs, whether its store answers or not; 503 when the server closes.',
  schema: {
    answer: {
      type: 'object',
      required: ['status'],
      properties: { status: { const: 'ok' } },
      additionalProperties: false,
    },
  },
  handle: () => json({ status: 'ok' }),
}
