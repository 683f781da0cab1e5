// Compiled by test/unit/types.test.ts and scripts/consumers/types.mjs. Never run.
import { parseDuration, type AcquireOptions, type ConnectOptions, type Duration } from 'leasehold'
import type { EtcdOptions } from 'leasehold/etcd'
import type { SqlGuardOptions } from 'leasehold/guards'
import type { HttpOptions } from 'leasehold/http'
import type { MongodbOptions } from 'leasehold/mongodb'
import type { MysqlOptions } from 'leasehold/mysql'
import type { PostgresOptions } from 'leasehold/postgres'
import type { RedisOptions } from 'leasehold/redis'
import type { S3Options } from 'leasehold/s3'
import type { ServeOptions } from 'leasehold/server'
import type { SqliteOptions } from 'leasehold/sqlite'

// Text with a unit, one part or several, and milliseconds.
export const durations: readonly Duration[] = [500, '500ms', '30s', '1.5h', '1m30s', '1h5m30s']
// What comes from outside is text of any kind.
export const fromOutside: Duration = parseDuration(process.env['LOCK_TTL'])

// @ts-expect-error -- there is no such unit
export const wrongUnit: Duration = '5x'
// @ts-expect-error -- milliseconds are a number
export const noUnit: Duration = '30'
// @ts-expect-error -- unchecked text
export const unchecked: Duration = process.env['LOCK_TTL'] ?? '30s'

// With exactOptionalPropertyTypes, too, an option may be passed on that is undefined.
export function passedOn(wait?: Duration, signal?: AbortSignal): AcquireOptions {
  return { wait, signal, ttl: undefined, retry: { attempts: 3, min: undefined } }
}
export const connected: ConnectOptions = { runner: undefined, defaults: undefined, heartbeatThread: undefined }

// What is checked at run time, with a default of its own.
export const ofEnvironment: AcquireOptions = { ttl: parseDuration(process.env['LOCK_TTL'] ?? '5s') }

// The same goes for the options of drivers, servers and guards.
export const ofDrivers: [
  RedisOptions,
  PostgresOptions,
  SqliteOptions,
  HttpOptions,
  MongodbOptions,
  MysqlOptions,
  EtcdOptions,
  S3Options,
] = [
  { url: 'redis://localhost', prefix: undefined },
  { schema: undefined, poolSize: undefined },
  { file: undefined },
  { url: 'http://localhost', token: process.env['LEASEHOLD_TOKEN'] },
  { ttl: undefined, collection: undefined },
  { ttl: undefined, table: undefined },
  { prefix: undefined },
  { bucket: 'locks', credentials: undefined, client: undefined },
]
export const served: ServeOptions = { store: process.env['LEASEHOLD_STORE'], port: undefined, tls: undefined }
export const guarded: SqlGuardOptions = { column: undefined }
