/** A store behind HTTP, for those who cannot or may not reach it directly: `leasehold/http` is the driver for it. */
export { serve, type AuditOptions, type LeaseholdServer, type ServeOptions } from './serve.ts'
export type { ServerLimits } from './contract/limits.ts'
export type { TlsOptions } from './http/tls.ts'
export type { SendForOptions, StoreAccess } from './store/store-facade.ts'
export type { SecretOptions, TokenOptions } from './auth/tokens.ts'
export type { GrantOptions } from './auth/grants.ts'
export type { JwtClaimValue, JwtGrantOptions, JwtOptions } from './auth/jwt-options.ts'
export type { RateLimitOptions, RateOptions } from './auth/rate-limits.ts'
export { events, fixed, json, text } from './contract/call.ts'
export type {
  Answer,
  Call,
  Caller,
  EventFeed,
  Principal,
  Right,
  Route,
  RouteSchema,
  JsonSchema,
} from './contract/call.ts'
