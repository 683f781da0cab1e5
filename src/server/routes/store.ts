import type { Supports } from '../../core/driver.ts'
import { protocolVersion } from '../../core/wire/wire-protocol.ts'
import { json } from '../answer.ts'
import type { Route } from '../call.ts'
import type { Limits } from '../limits.ts'
import { storeSchema } from '../schemas.ts'
import type { StoreGate } from '../store-gate.ts'

/** `GET /v1/store`: what is behind this server. */
export function storeRoute(store: StoreGate, limits: Limits): Route {
  return {
    method: 'GET',
    path: '/v1/store',
    right: 'token',
    summary: 'Says what the store behind this server is and can do, and for how long it has been up.',
    schema: { answer: storeSchema },
    async handle() {
      const dataAgeMs = await store.dataAgeMs()
      return json({
        protocol: protocolVersion,
        name: store.name,
        supports: wireSupports(store.supports),
        // JSON has no Infinity: null stands for it. Absent: the store does not say.
        dataAgeMs: dataAgeMs === Infinity ? null : dataAgeMs,
        limits: { bodyBytesMax: limits.bodyBytesMax, requestsPerCallMax: limits.requestsPerCallMax },
      })
    },
  }
}

function wireSupports(supports: Supports): object {
  const { pollingDefault } = supports
  if (pollingDefault === undefined || pollingDefault.attempts !== Infinity) return supports
  return { ...supports, pollingDefault: { ...pollingDefault, attempts: null } }
}
