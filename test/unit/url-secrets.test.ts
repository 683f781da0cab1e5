/** What is in a URL beside the place of a store is secret: it must be in no error, however the URL is written, nor in its causes. */
import { inspect } from 'node:util'
import { describe, expect, test } from 'vitest'
import { dynamodb } from '../../src/drivers/dynamodb/driver.ts'
import { etcd } from '../../src/drivers/etcd/driver.ts'
import { http } from '../../src/drivers/http/driver.ts'
import { s3 } from '../../src/drivers/s3/driver.ts'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { mongodb } from '../../src/drivers/mongodb/driver.ts'
import { nats } from '../../src/drivers/nats/driver.ts'
import { mysql } from '../../src/drivers/mysql/driver.ts'
import { postgresAdvisory } from '../../src/drivers/postgres-advisory/driver.ts'
import { postgres } from '../../src/drivers/postgres/driver.ts'
import { redis } from '../../src/drivers/redis/driver.ts'
import { connect } from '../../src/index.ts'
import { serve } from '../../src/server/index.ts'

const schemes = [
  'redis',
  'redis-cluster',
  'postgres',
  'postgres-advisory',
  'mongodb',
  'mysql',
  'mariadb',
  'etcd',
  'nats',
  's3',
  'dynamodb',
  'http',
]
const cased = schemes.flatMap((scheme) => [scheme, scheme.toUpperCase(), scheme[0]?.toUpperCase() + scheme.slice(1)])
/** Port 1 is nobody's. */
const places = [
  '//user:s3cret@127.0.0.1:1',
  '//user:s3cret@[bad',
  '//user:s3/cret@127.0.0.1:1',
  'user:s3cret@127.0.0.1:1',
]
const urls = [
  ...cased.flatMap((scheme) => places.map((place) => `${scheme}:${place}`)),
  'http://s3cret@127.0.0.1:1',
  'HTTP://s3cret@127.0.0.1:1',
  'redis+unix:///nowhere?password=s3cret',
  'quorum:redis://u:s3cret@127.0.0.1:1,Redis://u:s3cret@127.0.0.1:2,redis://127.0.0.1:3',
  'quorum:redis://u:s3cret@127.0.0.1:1,redis://u:s3cret@127.0.0.1:1,redis://127.0.0.1:3',
  'github:o/r?token=s3cret',
  ' redis://user:s3cret@127.0.0.1:1',
  'redis ://user:s3cret@127.0.0.1:1',
  'postgres://user:s3cret@127.0.0.1:1\n',
  'mysql://user:s3cret@127.0.0.1:1/db',
  'mariadb://user:s3cret@127.0.0.1:1/db',
  'mysql://user:s3/cret@127.0.0.1:1/db?table=a',
]
const secret = /s3\/?cret/

/** All that a program may print of an error: its stack, its fields, its causes. */
async function errorOf(work: () => Promise<unknown>): Promise<string> {
  try {
    await work()
  } catch (error) {
    return inspect(error, { depth: 12, showHidden: true })
  }
  throw new Error('There should be no such store')
}

describe('the secrets of a URL are in no error', { timeout: 60_000 }, () => {
  test.each(urls)('of connect: %j', async (url) => {
    expect(await errorOf(() => connect(url))).not.toMatch(secret)
  })

  test.each(urls.filter((url) => /^(?:quorum|redis|POSTGRES|http)/.test(url)))('of serve: %j', async (store) => {
    expect(await errorOf(() => serve({ store, port: 0 }))).not.toMatch(secret)
  })

  const factories: readonly (readonly [string, (url: string) => LockDriver])[] = [
    ['redis', redis],
    ['postgres', postgres],
    ['postgres-advisory', postgresAdvisory],
    ['mongodb', mongodb],
    ['mysql', mysql],
    ['etcd', etcd],
    ['nats', nats],
    ['s3', s3],
    ['dynamodb', dynamodb],
    ['http', http],
  ]
  test.each(
    factories.flatMap(([name, make]) => places.map((place) => [`${name.toUpperCase()}:${place}`, make] as const)),
  )('of a driver: %j', async (url, make) => {
    const opened = async (): Promise<never> => {
      const driver = make(url)
      try {
        await driver.open()
      } finally {
        await driver.close()
      }
      throw new Error('opened, or at least read')
    }
    expect(await errorOf(opened)).not.toMatch(secret)
  })
})
