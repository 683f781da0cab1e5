import { join } from 'node:path'
import { Cluster } from 'ioredis'
import { createConnection } from 'mysql2/promise'
import { Client } from 'pg'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  isMissing,
  isSuperseded,
  redisGuard,
  sqlGuard,
  type FindResult,
  type SqlDialect,
  type WriteResult,
} from '../../src/guards/index.ts'
import { pauseHolder } from '../guards/pause.ts'
import { Child } from '../support/child.ts'
import { MariadbServer } from '../support/mariadb-server.ts'
import { againIfItFell, countFalls } from '../support/mongo-falls.ts'
import { MongoServer } from '../support/mongo-server.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { RedisCluster } from '../support/redis-cluster.ts'
import { RedisServer } from '../support/redis-server.ts'
import { folderForFile } from '../support/test-folder.ts'
import { isLong } from '../support/extent.ts'

// Each guard is proven by the thing it is there for: a process that holds a lock, is stopped past its lease (SIGSTOP)
// right after it has looked at the lease, and writes when it goes on. Without the guard its write must do harm, or the
// proof proves nothing.

const folder = folderForFile('guards')
const url = `sqlite:${join(folder, 'locks.sqlite')}`
const ends: (() => unknown)[] = []
countFalls()

afterAll(async () => {
  for (const end of ends.toReversed()) await end()
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
  ...(isLong && { 'node-redis': redis }),
  ...(isLong && { mongodb }),
  http: counterServer,
  memory: counterServer,
}

async function mongodb(): Promise<() => string> {
  const server = await MongoServer.start()
  ends.push(() => server.stop())
  return () => server.url
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
    expect(await pauseHolder(kind, place('guarded'), 'guarded', 'after the write', url)).toEqual({
      lostUpdates: 0,
      latecomer: 'refused: LOST superseded',
    })
  })

  test('does no harm between a read and a write where the fence is raised before the read', async () => {
    expect(await pauseHolder(kind, place('guarded'), 'raised', 'before the write', url)).toEqual({
      lostUpdates: 0,
      latecomer: 'refused: LOST superseded',
    })
  })

  test('loses an update without one', async () => {
    const outcome = await pauseHolder(kind, place('unguarded'), 'unguarded', 'after the write', url)
    expect(outcome).toEqual({ lostUpdates: 1, latecomer: 'written' })
  })
})

test('a holder paused between read and write loses an update where the fence comes with the write alone', async () => {
  const place = join(folder, 'late.txt')
  expect(await pauseHolder('file', place, 'guarded', 'before the write', url)).toEqual({
    lostUpdates: 1,
    latecomer: 'written',
  })
})

describe('an SQL guard says whether a row is missing or has a later writer', () => {
  const row = (id: number, fence: number) => ({ table: 'invoice', where: { id }, set: { total: 5 }, fence })
  const table = 'create table invoice (id integer primary key, total integer, fence bigint)'
  const rows = 'insert into invoice values (1, 0, 200)'

  /** Writes a row that has a later writer, a row that is missing, and a row as it should be. */
  async function outcomes(dialect: SqlDialect, run: (sql: string, values: unknown[]) => Promise<unknown>) {
    await run(table, [])
    await run(rows, [])
    const guard = sqlGuard(dialect)
    const write = async (id: number, fence: number): Promise<string> => {
      const { sql, values } = guard.update(row(id, fence))
      const written = (await run(sql, values)) as WriteResult
      const error: unknown = await guard
        .checkRow(written, row(id, fence), (find, of) => run(find, of) as Promise<FindResult>)
        .catch((thrown: unknown) => thrown)
      return isSuperseded(error)
        ? 'superseded'
        : isMissing(error)
          ? 'missing'
          : error === undefined
            ? 'written'
            : 'failed'
    }
    return [await write(1, 199), await write(2, 199), await write(1, 201)]
  }
  const expected = ['superseded', 'missing', 'written']

  test('PostgreSQL, with pg and postgres', async () => {
    const server = await PostgresServer.start()
    ends.push(() => server.destroy())
    const client = new Client({ connectionString: server.url })
    await client.connect()
    expect(await outcomes('postgres', (sql, values) => client.query(sql, values))).toEqual(expected)
    await client.query('drop table invoice')
    await client.end()
    const sql = postgres(server.url, { max: 1, onnotice: () => {} })
    expect(await outcomes('postgres', (text, values) => sql.unsafe(text, values as never[]))).toEqual(expected)
    await sql.end()
  })

  test('MariaDB, with mysql2', async () => {
    const server = await MariadbServer.start()
    ends.push(() => server.stop())
    const connection = await createConnection(server.url)
    await connection.query('create database missing')
    await connection.query('use missing')
    expect(await outcomes('mysql', (sql, values) => connection.execute(sql, values as never[]))).toEqual(expected)
    await connection.end()
  }, 600_000)
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
