import { readdirSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { connect, createLocks } from '../../src/index.ts'
import type { Locks } from '../../src/api/locks.ts'
import { github } from '../../src/drivers/github/driver.ts'
import { http } from '../../src/drivers/http/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { dynamodb } from '../../src/drivers/dynamodb/driver.ts'
import { etcd } from '../../src/drivers/etcd/driver.ts'
import { s3 } from '../../src/drivers/s3/driver.ts'
import { mongodb } from '../../src/drivers/mongodb/driver.ts'
import { nats } from '../../src/drivers/nats/driver.ts'
import { mysql } from '../../src/drivers/mysql/driver.ts'
import { postgresAdvisory } from '../../src/drivers/postgres-advisory/driver.ts'
import { postgres } from '../../src/drivers/postgres/driver.ts'
import { quorum } from '../../src/drivers/quorum/driver.ts'
import { redis } from '../../src/drivers/redis/driver.ts'
import { sqlite } from '../../src/drivers/sqlite/driver.ts'
import { fileGuard, httpGuard, mongoGuard, redisGuard, sqlGuard } from '../../src/guards/index.ts'
import { dashboard, mountDashboard } from '../../src/server/operators.ts'
import { serve } from '../../src/server/serve.ts'
import { openTelemetry } from '../../src/telemetry/opentelemetry.ts'
import { prometheus } from '../../src/telemetry/prometheus.ts'
import { makeFolder, removeFolder } from '../support/scratch-folder.ts'

const body = (): void => {}
const url = 'postgres://127.0.0.1:1/db'

/** Every call that takes options, with one misspelt. Written as a program without types would. */
const calls: Record<string, (locks: Locks, option: never) => unknown> = {
  'connect: namspace → namespace': (_locks, option) => connect('memory:', option),
  'connect: ttl → defaults: { ttl': (_locks, option) => connect('memory:', option),
  'createLocks: namspace → namespace': (_locks, option: object) => createLocks({ driver: memory(), ...option }),
  'createLocks: runner → connect': (_locks, option: object) => createLocks({ driver: memory(), ...option }),
  'acquire: ttll → ttl': (_locks, option) => connect('memory:', { defaults: option }),
  'acquire: wiat → wait': (locks, option) => locks.acquire('a', option),
  'acquire: timeout → wait': (locks, option) => locks.acquireAll(['a'], option),
  'retry: maxAttempts → attempts': (locks, option) => locks.acquire('a', { retry: option }),
  'a lock: hearbeat → heartbeat': (locks, option) => locks.lock('a', option),
  'a lock: prioritty → priority': (locks, option) => locks.semaphore('a', 2, option),
  'a lock: metdata → metadata': (locks, option) => locks.readWrite('a', option),
  'elect: onElect → onElected': (locks, option) => locks.elect('a', option),
  'campaign: timeout → wait': (locks, option) => locks.elect('a').campaign(option),
  'once: atleast → atLeast': (locks, option: object) => locks.once('a', { atMost: '1s', ...option }, body),
  'claim: maxhold → maxHold': (locks, option) => locks.claim('queue', 'task', option),
  'complete: remeber → remember': async (locks, option) => {
    const task = await locks.claim('queue', 'task')
    if (task.state === 'claimed') await task.complete(option)
  },
  'upgrade: timeout → wait': async (locks, option) => (await locks.readWrite('b').read()).upgrade(option),
  'list: prefx → prefix': (locks, option) => locks.list(option),
  'evict: fense → fence': (locks, option: object) => locks.evict('a', { reason: 'because', ...option }),
  'memory: nam → name': (_locks, option) => memory(option),
  'sqlite: fil → file': (_locks, option) => sqlite(option),
  'redis: prefx → prefix': (_locks, option) => redis(option),
  'redis: keyPrefix → prefix': (_locks, option) => redis('redis://127.0.0.1:1', option),
  'postgres: prefix → schema': (_locks, option) => postgres(url, option),
  'postgresAdvisory: prefix → schema': (_locks, option) => postgresAdvisory(url, option),
  'mongodb: prefix → collection': (_locks, option) => mongodb('mongodb://127.0.0.1:1/db', option),
  'postgres: shema → schema': (_locks, option) => postgres(url, option),
  'postgresAdvisory: ttl → ttlMs': (_locks, option) => postgresAdvisory(url, option),
  'mongodb: colection → collection': (_locks, option) => mongodb('mongodb://127.0.0.1:1/db', option),
  'mysql: prefix → table': (_locks, option) => mysql('mysql://127.0.0.1:1/db', option),
  'mysql: tabel → table': (_locks, option) => mysql('mysql://127.0.0.1:1/db', option),
  'etcd: perfix → prefix': (_locks, option) => etcd('etcd://127.0.0.1:1', option),
  'nats: buket → bucket': (_locks, option) => nats('nats://127.0.0.1:1', option),
  'nats: prefix → bucket': (_locks, option) => nats('nats://127.0.0.1:1', option),
  's3: buckt → bucket': (_locks, option) => s3('s3://locks?region=a', option),
  'dynamodb: tabel → table': (_locks, option) => dynamodb('dynamodb://locks', option),
  'dynamodb: prefix → table': (_locks, option) => dynamodb('dynamodb://locks', option),
  'github: tokn → token': (_locks, option) => github('owner/repo', option),
  'poll: mn → min': (_locks, option: object) => github('owner/repo', { poll: { max: '1s', ...option } as never }),
  'http: tokn → token': (_locks, option: object) => http({ url: 'http://127.0.0.1:1', ...option }),
  'quorum: votesafter → votesAfter': (_locks, option) => quorum([memory(), memory(), memory()], option),
  'serve: tokns → tokens': (_locks, option: object) => serve({ driver: memory(), port: 0, ...option }),
  'tls: certt → cert': (_locks, option: object) => serve({ driver: memory(), port: 0, tls: option as never }),
  'limits: callsmax → callsMax': (_locks, option) => serve({ driver: memory(), port: 0, limits: option }),
  'dashboard: loger → logger': (_locks, option) => dashboard(option),
  'mountDashboard: stor → store': (_locks, option) => mountDashboard(option),
  'fileGuard: busyTimeut → busyTimeout': (_locks, option) => fileGuard('a', option),
  'httpGuard: resourse → resource': (_locks, option) => httpGuard(option),
  'mongoGuard: feild → field': (_locks, option) => mongoGuard(option),
  'redisGuard: fencekey → fenceKey': (_locks, option) => redisGuard({ eval: async () => 0 }, option),
  'sqlGuard: colum → column': (_locks, option) => sqlGuard('sqlite', option),
  'prometheus: lables → labels': (locks, option) => prometheus(locks, option),
  'buckets: waits → wait': (locks, option) => prometheus(locks, { buckets: option }),
  'openTelemetry: metter → meter': (locks, option) => openTelemetry(locks, option),
}

describe('an option that is misspelt', () => {
  test.each(Object.keys(calls))('is refused by %s', async (title) => {
    const [, whose = '', name = '', meant = ''] = /^(.*): (\w+) → (.*)$/.exec(title) ?? []
    await using locks = await connect('memory:', { allowForce: true })
    const told = new RegExp(`^INVALID: There is no option "${name}" of ${whose}\\..*${meant}.* The options are`)
    await expect((async () => calls[title]?.(locks, { [name]: 1 } as never))()).rejects.toThrow(told)
    expect((await locks.list()).locks.filter(({ scope }) => scope === 'a')).toEqual([])
  })

  test('is refused also if nothing is near', async () => {
    await expect(connect('memory:', { colour: 'red' } as never)).rejects.toThrow(
      /^INVALID: There is no option "colour" of connect\. The options are namespace, /,
    )
  })

  test('is told from options that are none', async () => {
    await expect(connect('memory:', 'billing' as never)).rejects.toThrow(
      'options of connect are an object, not a string',
    )
  })

  test.each([
    ['postgres', `${url}?poolsize=9`, "takes no ?poolsize=. Did you mean 'poolSize'?"],
    ['postgres', `${url}?sslmode=disable&shema=locks`, "takes no ?shema=. Did you mean 'schema'?"],
    ['postgres', `${url}?ttl=5s`, 'takes no ?ttl=.'],
    ['postgres', `${url}?poolSize=many`, 'poolSize is NaN'],
    ['postgres', `${url}?unlogged=yes`, '?unlogged=yes is neither'],
    ['postgres-advisory', `postgres-advisory://127.0.0.1:1/db?poolSize=2`, 'takes no ?poolSize=.'],
    ['redis', 'redis://127.0.0.1:1?database=3', 'There is no option "database" of a Redis URL'],
    ['redis-cluster', 'redis-cluster://127.0.0.1:1?prefx=a', 'There is no option "prefx" of a Redis URL'],
    ['etcd', 'etcd://127.0.0.1:1?prefx=a', 'There is no option "prefx" of an etcd URL'],
    ['nats', 'nats://127.0.0.1:1?buket=a', 'There is no option "buket" of a NATS URL'],
    ['s3', 's3://locks?regon=a', 'There is no option "regon" of an S3 URL'],
    ['dynamodb', 'dynamodb://locks?regoin=a', 'There is no option "regoin" of a DynamoDB URL'],
    // What is a prefix in one store has the name of the field in another.
    ['postgres', `${url}?prefix=a`, "takes no ?prefix=. It is 'schema' here."],
    ['postgres-advisory', `postgres-advisory://127.0.0.1:1/db?prefix=a`, "takes no ?prefix=. It is 'schema' here."],
    ['mysql', 'mysql://127.0.0.1:1/db?tabel=a', "takes no ?tabel=. Did you mean 'table'?"],
    ['mysql', 'mariadb://127.0.0.1:1/db?poolSize=many', 'poolSize is NaN'],
    ['mysql', 'mysql://127.0.0.1:1/db?prefix=a', "takes no ?prefix=. It is 'table' here."],
    ['mongodb', 'mongodb://127.0.0.1:1/db?prefix=a', "takes no ?prefix=. It is 'collection' here."],
  ])('is refused in the URL of %s: %s', async (_store, wrong, told) => {
    await expect(connect(wrong)).rejects.toMatchObject({ code: 'INVALID', message: expect.stringContaining(told) })
  })

  test('is left to the client of a database where it is one of its own', () => {
    expect(() => postgres(`${url}?sslmode=disable&application_name=billing&schema=locks`)).not.toThrow()
  })
})

test('an event that there is not is refused, and so is a listener that cannot be called', async () => {
  await using locks = await connect('memory:')
  expect(() => locks.on('aquired' as never, body)).toThrow(/INVALID: There is no event "aquired"\. .*'acquired'\?/)
  expect(() => locks.on('bogus' as never, body)).toThrow(/no event "bogus"\. The events are waiting, /)
  expect(() => locks.on('acquired', undefined as never)).toThrow(/INVALID: .*needs a function/)
})

test('a store is let go of if what follows is refused', async () => {
  const directory = makeFolder('options')
  try {
    const file = path.join(directory, 'locks.sqlite')
    await expect(connect(`sqlite:${file}`, { defaults: { ttll: 1 } as never })).rejects.toThrow('no option "ttll"')
    // Each open driver has an inbox there.
    expect(readdirSync(`${file}.inboxes`)).toEqual([])
  } finally {
    removeFolder(directory)
  }
})
