import { json } from '../answer.ts'
import type { Route } from '../call.ts'
import { storeSchema } from '../schemas.ts'
import type { StoreDescription } from '../store-description.ts'
import type { StoreFacade } from '../store-facade.ts'

/** `GET /v1/store`: what is behind this server. */
export function storeRoute(store: StoreFacade, description: StoreDescription): Route {
  return {
    method: 'GET',
    path: '/v1/store',
    right: 'token',
    summary: 'Says what the store behind this server is and can do, and for how long it has kept its data.',
    schema: { answer: storeSchema },
    async handle() {
      const dataAgeMs = await store.dataAgeMs()
      // JSON has no Infinity: null stands for it. Absent: the store does not say.
      const age = { dataAgeMs: dataAgeMs === Infinity ? null : dataAgeMs }
      return json({ ...description.fields, ...age }, 200, description.headers)
    },
  }
}
