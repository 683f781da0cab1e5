/**
 * Fence guards, for the resource that a lock protects: they refuse the writes of a holder that has been replaced. An equal
 * or higher fence passes, a lower one is refused with LOST and reason `superseded`.
 */
export { memoryGuard, type MemoryGuard } from './memory.ts'
export { rangeGuard, type RangeGuard } from './range.ts'
export { sqlGuard, type SqlGuard } from './sql.ts'
export type { SqlDialect, SqlGuardOptions, SqlPiece, SqlRow, SqlUpdate } from './sql.ts'
export type { WriteResult } from './affected-rows.ts'
export type { FindResult } from './found-rows.ts'
export { redisGuard, type RedisGuard } from './redis.ts'
export type { IoredisClient, NodeRedisClient, RedisGuardOptions } from './redis.ts'
export { mongoGuard, type MongoGuard } from './mongo.ts'
export type { MongoGuardOptions, MongoResult, MongoUpdate } from './mongo.ts'
export { fileGuard, type FileGuard, type FileGuardOptions } from './file.ts'
export { httpGuard, type HttpGuardOptions, type Middleware } from './http-guard.ts'
export { fencedFetch, fenceHeader, type Fenced } from './http-fence.ts'
export { isMissing, isSuperseded } from './superseded.ts'
