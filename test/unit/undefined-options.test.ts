/** An option that is undefined is one that is absent: the URL's or the default holds. */
import { describe, expect, test } from 'vitest'
import { withDefaults } from '../../src/core/contract/option-names.ts'
import { dynamodb } from '../../src/drivers/dynamodb/driver.ts'
import { etcd } from '../../src/drivers/etcd/driver.ts'
import { s3 } from '../../src/drivers/s3/driver.ts'
import { http } from '../../src/drivers/http/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { mongodb } from '../../src/drivers/mongodb/driver.ts'
import { nats } from '../../src/drivers/nats/driver.ts'
import { mysql } from '../../src/drivers/mysql/driver.ts'
import { postgresAdvisory } from '../../src/drivers/postgres-advisory/driver.ts'
import { postgres } from '../../src/drivers/postgres/driver.ts'
import { redis } from '../../src/drivers/redis/driver.ts'
import { sqlite } from '../../src/drivers/sqlite/driver.ts'
import { resolveLimits } from '../../src/server/contract/limits.ts'

test('an undefined option leaves the default', () => {
  expect(withDefaults({ ttl: 5, prefix: 'a' }, { ttl: undefined as unknown as number, prefix: 'b' })).toEqual({
    ttl: 5,
    prefix: 'b',
  })
  const limits: object = { bodyBytesMax: undefined }
  expect(resolveLimits(limits)).toEqual(resolveLimits())
})

describe('every option of a driver may be undefined', () => {
  const drivers = {
    memory: () => memory({ name: undefined, clock: undefined }),
    sqlite: () =>
      sqlite({ file: ':memory:', networkFileSystem: undefined, busyTimeoutMs: undefined, forOthers: undefined }),
    redis: () =>
      redis({ url: 'redis://127.0.0.1:1', client: undefined, prefix: undefined, commandTimeoutMs: undefined }),
    postgres: () => postgres('postgres://127.0.0.1:1/a', { schema: undefined, poolSize: undefined, listen: undefined }),
    'postgres-advisory': () => postgresAdvisory('postgres://127.0.0.1:1/a', { schema: undefined, ttlMs: undefined }),
    mongodb: () => mongodb('mongodb://127.0.0.1:1/a', { collection: undefined, ttl: undefined, timeout: undefined }),
    nats: () => nats('nats://127.0.0.1:1', { bucket: undefined, ttl: undefined, heartbeat: undefined }),
    mysql: () => mysql('mysql://127.0.0.1:1/a', { table: undefined, ttl: undefined, poolSize: undefined }),
    etcd: () => etcd('etcd://127.0.0.1:1', { prefix: undefined, ttl: undefined, heartbeat: undefined }),
    s3: () => s3({ bucket: 'locks', region: 'a', prefix: undefined, endpoint: undefined, credentials: undefined }),
    dynamodb: () => dynamodb('dynamodb://locks', { table: undefined, ttl: undefined, readsPerSecond: undefined }),
    http: () => http({ url: 'http://127.0.0.1:1', token: undefined, ca: undefined, answerWithinMs: undefined }),
  }
  test.each(Object.entries(drivers))('%s', async (_, make) => {
    await make().close()
  })
})
