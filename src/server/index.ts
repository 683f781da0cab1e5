/** A store behind HTTP, for those who cannot or may not reach it directly: `leasehold/http` is the driver for it. */
export { serve, type LeaseholdServer, type ServeOptions } from './serve.ts'
export type { ServerLimits } from './contract/limits.ts'
export type { TlsOptions } from './http/listener.ts'
export type { StoreAccess } from './store/store-facade.ts'
export type { TokenOptions } from './auth/tokens.ts'
export { events, json, text } from './contract/call.ts'
export type { Answer, Call, EventFeed, Principal, Right, Route, RouteSchema, JsonSchema } from './contract/call.ts'
