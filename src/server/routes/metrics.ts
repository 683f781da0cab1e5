import { contentType, exposition } from '../../telemetry/exposition.ts'
import { text } from '../answer.ts'
import type { Route } from '../call.ts'
import type { Health } from '../health.ts'
import type { ServerMetrics } from '../metrics.ts'

/** `GET /metrics`, for Prometheus. */
export function metricsRoute(metrics: ServerMetrics, health: Health): Route {
  return {
    method: 'GET',
    path: '/metrics',
    right: 'look',
    always: true,
    summary: "The server's counts, in the text format of Prometheus.",
    schema: { answer: { type: 'string' }, answerType: contentType },
    async handle() {
      await health.isUp()
      return text(exposition(metrics.families()), contentType)
    },
  }
}
