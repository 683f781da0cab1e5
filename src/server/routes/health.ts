import { LeaseholdError } from '../../core/errors.ts'
import { json, type Route, text } from '../contract/call.ts'
import type { Health } from '../store/health.ts'
import { HttpError } from '../contract/http-error.ts'
import { contentType, exposition } from '../../telemetry/exposition.ts'
import type { ServerMetrics } from '../store/metrics.ts'

/** `GET /healthz`: for load balancers. A draining server refuses this call like all others. */
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

/**
 * `GET /livez`: for supervisors that restart a server that hangs. Does not ask the store: a restart would not bring a store back,
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

/** `GET /metrics`, for Prometheus. */
export function metricsRoute(metrics: ServerMetrics, health: Health): Route {
  return {
    method: 'GET',
    path: '/metrics',
    right: 'read',
    always: true,
    summary: "The server's counts, in the text format of Prometheus.",
    schema: { answer: { type: 'string' }, answerType: contentType },
    async handle({ principal }) {
      await health.isUp()
      const withTokens = principal.rights.has('admin')
      return text(exposition(metrics.families({ withTokens })), contentType)
    },
  }
}
