/** A store behind HTTP, for those who cannot or may not reach it directly: `leasehold/http` is the driver for it. */
export { serve, type LeaseholdServer, type ServeOptions } from './serve.ts'
export type { Limits } from './limits.ts'
export type { TlsOptions } from './listener.ts'
export type { StoreAccess } from './store-facade.ts'
export type { TokenOptions } from './tokens.ts'
export { events, json, text } from './answer.ts'
export type { Answer, Call, EventSource, Grant, Right, Route, RouteSchema, Schema } from './call.ts'
