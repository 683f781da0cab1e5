import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Cluster } from 'ioredis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { redisGuard } from '../../src/guards/index.ts'
import { pauseHolder } from '../guards/pause.ts'
import { Child } from '../support/child.ts'
import { MariadbServer } from '../support/mariadb-server.ts'
import { againIfItFell, countFalls } from '../support/mongo-falls.ts'
import { MongoServer } from '../support/mongo-server.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { RedisCluster } from '../support/redis-cluster.ts'
import { RedisServer } from '../support/redis-server.ts'

// Each guard is proven by the thing it is there for: a process that holds a lock, is stopped past its lease (SIGSTOP)
// right after it has looked at the lease, and writes when it goes on. Without the guard its write must do harm, or the
// proof proves nothing.

const folder = mkdtempSync(join(tmpdir(), 'leasehold-guards-'))
const url = `sqlite:${join(folder, 'locks.sqlite')}`
const ends: (() => unknown)[] = []
countFalls()

afterAll(async () => {
  for (const end of ends.toReversed()) await end()
  rmSync(folder, { recursive: true })
})

/** Brings up what a counter needs; gives its place, fresh for each use. */
const places: Record<string, () => Promise<(name: string) => string>> = {
  file: async () => (name) => join(folder, `${name}.txt`),
  sqlite: async () => (name) => join(folder, `${name}.sqlite`),
  async postgres() {
    const server = await PostgresServer.start()
    ends.push(() => server.destroy())
    await server.sql('create database guarded')
    await server.sql('create database unguarded')
    return (name) => server.url.replace(/postgres$/, name)
  },
  async mysql() {
    const server = await MariadbServer.start()
    ends.push(() => server.stop())
    return () => server.url
  },
  ioredis: redis,
  'node-redis': redis,
  async mongodb() {
    const server = await MongoServer.start()
    ends.push(() => server.stop())
    return () => server.url
  },
  http: counterServer,
  memory: counterServer,
}

async function counterServer(): Promise<() => string> {
  const server = new Child('counter-server', [])
  ends.push(() => server.kill())
  const address = await server.line(/http/)
  return () => address
}

async function redis(): Promise<(name: string) => string> {
  const server = await RedisServer.start()
  ends.push(() => server.stop())
  return (name) => `${server.url}/${name === 'guarded' ? 1 : 2}`
}

describe.each(Object.entries(places))('%s: a holder paused past its lease', { retry: againIfItFell }, (kind, start) => {
  let place: (name: string) => string
  // A server may have to be installed first.
  beforeAll(async () => {
    place = await start()
  }, 600_000)

  test('does no harm through a guard: its write is refused', async () => {
    expect(await pauseHolder(kind, place('guarded'), true, url)).toEqual({
      lostUpdates: 0,
      latecomer: 'refused: LOST superseded',
    })
  })

  test('loses an update without one', async () => {
    expect(await pauseHolder(kind, place('unguarded'), false, url)).toEqual({ lostUpdates: 1, latecomer: 'written' })
  })
})

test('a Redis guard runs any command of one key, on a cluster too', async () => {
  const cluster = await RedisCluster.start()
  ends.push(() => cluster.stop())
  const client = new Cluster(cluster.startNodes)
  ends.push(() => client.disconnect())
  const guard = redisGuard(client)
  for (const key of ['plain', 'user:{7}:totals', 'other']) {
    expect(await guard.command(key, ['HINCRBY', key, 'total', '2'], 5)).toBe(2)
    expect(await guard.command(key, ['HINCRBY', key, 'total', '3'], 5)).toBe(5)
    expect(await guard.command(key, ['HGETALL', key], 9_007_199_254_740_991)).toEqual(['total', '5'])
    await expect(guard.command(key, ['DEL', key], 9_007_199_254_740_990)).rejects.toThrow('LOST: Fence')
    expect(await client.hget(key, 'total')).toBe('5')
  }
})
