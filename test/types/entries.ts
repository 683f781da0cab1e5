// Compiled by test/unit/types.test.ts and scripts/consumers/types.mjs. Never run.
import { connect, createLocks, LeaseholdError, type LockDriver, type Locks } from 'leasehold'
import { dashboard } from 'leasehold/dashboard'
import { documentDriver, type DocumentStore } from 'leasehold/document'
import { dynamodb } from 'leasehold/dynamodb'
import { etcd } from 'leasehold/etcd'
import { github } from 'leasehold/github'
import { fenceHeader, httpGuard, memoryGuard, rangeGuard } from 'leasehold/guards'
import { http } from 'leasehold/http'
import { memory } from 'leasehold/memory'
import { mongodb } from 'leasehold/mongodb'
import { nats } from 'leasehold/nats'
import { mysql } from 'leasehold/mysql'
import { openTelemetry, type Meter } from 'leasehold/opentelemetry'
import { postgres } from 'leasehold/postgres'
import { postgresAdvisory } from 'leasehold/postgres-advisory'
import { prometheus } from 'leasehold/prometheus'
import { quorum } from 'leasehold/quorum'
import { redis } from 'leasehold/redis'
import { s3 } from 'leasehold/s3'
import { serve, type LeaseholdServer } from 'leasehold/server'
import { sqlite } from 'leasehold/sqlite'
import { conformance, fakeTime, faulty, type Harness } from 'leasehold/testing'
import { webLocks, type WebLockManager } from 'leasehold/web-locks'

declare const store: DocumentStore<number>
declare const meter: Meter

export const drivers: readonly LockDriver[] = [
  memory(),
  sqlite({ file: 'locks.sqlite' }),
  redis('redis://127.0.0.1'),
  postgres('postgres://127.0.0.1/shop', { schema: 'locks' }),
  postgresAdvisory('postgres://127.0.0.1/shop'),
  mongodb('mongodb://127.0.0.1/shop'),
  mysql('mysql://127.0.0.1/shop'),
  etcd('etcd://127.0.0.1'),
  nats('nats://127.0.0.1'),
  s3('s3://shop-locks?region=eu-central-1'),
  dynamodb('dynamodb://locks?region=eu-central-1'),
  github('octo-org/shop'),
  http({ url: 'http://127.0.0.1:7411', ca: new Uint8Array() }),
  documentDriver(store),
  quorum([memory(), memory(), memory()], { votesAfter: '1m' }),
  faulty(memory(), { reject: 0.5 }),
]

export async function observed(locks: Locks): Promise<WebLockManager> {
  using metrics = prometheus(locks)
  using telemetry = openTelemetry(locks, { meter })
  return metrics === telemetry ? Promise.reject(new Error('One is not the other.')) : webLocks(locks)
}

export async function served(): Promise<LeaseholdServer> {
  return serve({ driver: memory(), routes: dashboard() })
}

export async function opened(): Promise<readonly Locks[]> {
  const { environment } = fakeTime()
  return [await connect('memory:'), await createLocks({ driver: memory(), environment })]
}

export function codeOf(error: unknown): string | undefined {
  return error instanceof LeaseholdError ? error.code : undefined
}

export const harness: Harness = {
  open: async () => ({ driver: async () => memory(), advance: async () => {}, close: async () => {} }),
}
export const suites: readonly ((name: string, harness: Harness) => void)[] = [conformance]
export const guards = [memoryGuard(), rangeGuard(), httpGuard(), fenceHeader] as const
