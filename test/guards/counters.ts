/**
 * The same number in several kinds of places, each written with a guard or without: what processes that believe they
 * hold a lock write to.
 */
import { readFile, rename, writeFile } from 'node:fs/promises'
import { Redis } from 'ioredis'
import { MongoClient } from 'mongodb'
import { createConnection, type ResultSetHeader, type RowDataPacket } from 'mysql2/promise'
import { Client } from 'pg'
import { createClient } from 'redis'
import { LeaseholdError, type ErrorCode } from '../../src/core/errors.ts'
import { openDatabase } from '../../src/drivers/sqlite/database.ts'
import { fencedFetch, fileGuard, mongoGuard, redisGuard, sqlGuard } from '../../src/guards/index.ts'

/** A number that holders of a lock read, add to, and write back. */
export interface Counter {
  /** Raises the fence before a read. */
  raise(fence: number): Promise<void>
  read(): Promise<number>
  write(value: number, fence: number): Promise<void>
  close(): Promise<void>
}

type OpenCounter = (place: string, guarded: boolean) => Promise<Counter>

interface Row {
  readonly value: number
}

const row = { table: 'counter', where: { id: 1 } } as const
const resource = 'the counter'

const file: OpenCounter = async (place, guarded) => ({
  raise: (fence) => fileGuard(place).raise(fence),
  read: async () => Number(await readFile(place, 'utf8').catch(() => '0')),
  async write(value, fence) {
    if (guarded) return fileGuard(place).write(String(value), fence)
    const draft = `${place}.${process.pid}`
    await writeFile(draft, String(value))
    await rename(draft, place)
  },
  close: async () => {},
})

const sqlite: OpenCounter = async (place, guarded) => {
  const database = openDatabase(place)
  database.exec('pragma busy_timeout = 5000')
  database.exec('create table if not exists counter (id integer primary key, value integer, fence integer)')
  database.exec('insert into counter values (1, 0, null) on conflict do nothing')
  const guard = sqlGuard('sqlite')
  return {
    async raise(fence) {
      const { sql, values } = guard.raise({ ...row, fence })
      database.command(sql).run(...(values as number[]))
      guard.check(Number(database.query('select changes() as rows').get()?.['rows']), resource, fence)
    },
    read: async () => Number(database.query('select value from counter').get()?.['value']),
    async write(value, fence) {
      if (!guarded) return database.command('update counter set value = ?').run(value)
      const { sql, values } = guard.update({ ...row, set: { value }, fence })
      database.command(sql).run(...(values as number[]))
      guard.check(Number(database.query('select changes() as rows').get()?.['rows']), resource, fence)
    },
    close: async () => database.close(),
  }
}

const table = 'create table if not exists counter (id integer primary key, value integer, fence bigint)'

const postgres: OpenCounter = async (place, guarded) => {
  const client = new Client({ connectionString: place })
  await client.connect()
  await client.query(table)
  await client.query('insert into counter values (1, 0, null) on conflict do nothing')
  const guard = sqlGuard('postgres')
  return {
    async raise(fence) {
      const { sql, values } = guard.raise({ ...row, fence })
      guard.check(await client.query(sql, values), resource, fence)
    },
    read: async () => (await client.query<Row>('select value from counter')).rows[0]?.value ?? 0,
    async write(value, fence) {
      if (!guarded) return void (await client.query('update counter set value = $1', [value]))
      const { sql, values } = guard.update({ ...row, set: { value }, fence })
      guard.check(await client.query(sql, values), resource, fence)
    },
    close: () => client.end(),
  }
}

const mysql: OpenCounter = async (place, guarded) => {
  const connection = await createConnection(place)
  await connection.query('create database if not exists counters')
  await connection.query('use counters')
  await connection.query(table)
  await connection.query('insert ignore into counter values (1, 0, null)')
  const guard = sqlGuard('mysql')
  return {
    async raise(fence) {
      const { sql, values } = guard.raise({ ...row, fence })
      guard.check(await connection.execute<ResultSetHeader>(sql, values as number[]), resource, fence)
    },
    async read() {
      const [rows] = await connection.query<(Row & RowDataPacket)[]>('select value from counter')
      return rows[0]?.value ?? 0
    },
    async write(value, fence) {
      if (!guarded) return void (await connection.execute('update counter set value = ?', [value]))
      const { sql, values } = guard.update({ ...row, set: { value }, fence })
      guard.check(await connection.execute<ResultSetHeader>(sql, values as number[]), resource, fence)
    },
    close: () => connection.end(),
  }
}

const ioredis: OpenCounter = async (place, guarded) => {
  const client = new Redis(place)
  const guard = redisGuard(client)
  return {
    raise: (fence) => guard.raise('counter', fence),
    read: async () => Number(await client.get('counter')),
    async write(value, fence) {
      if (guarded) await guard.set('counter', String(value), fence)
      else await client.set('counter', value)
    },
    close: async () => client.disconnect(),
  }
}

const nodeRedis: OpenCounter = async (place, guarded) => {
  const client = await createClient({ url: place }).connect()
  const guard = redisGuard(client)
  return {
    raise: (fence) => guard.raise('counter', fence),
    read: async () => Number(await client.get('counter')),
    async write(value, fence) {
      if (guarded) await guard.set('counter', String(value), fence)
      else await client.set('counter', String(value))
    },
    close: async () => client.destroy(),
  }
}

const mongodb: OpenCounter = async (place, guarded) => {
  const client = new MongoClient(place)
  const counters = client.db(guarded ? 'guarded' : 'unguarded').collection<{ _id: number; value: number }>('counters')
  await counters.updateOne({ _id: 1 }, { $setOnInsert: { value: 0 } }, { upsert: true })
  const guard = mongoGuard()
  return {
    async raise(fence) {
      const found = await counters.findOneAndUpdate(guard.filter({ _id: 1 }, fence), guard.raise(fence))
      guard.check(found, resource, fence)
    },
    read: async () => (await counters.findOne({ _id: 1 }))?.value ?? 0,
    async write(value, fence) {
      const update = { $set: { value } }
      if (!guarded) return void (await counters.updateOne({ _id: 1 }, update))
      const result = await counters.updateOne(guard.filter({ _id: 1 }, fence), guard.update(update, fence))
      guard.check(result, resource, fence)
    },
    close: () => client.close(),
  }
}

const http: OpenCounter = async (place, guarded) => {
  const url = `${place}/${guarded ? 'guarded' : 'unguarded'}`
  return {
    raise: async (fence) => void (await (await fencedFetch({ fence }, url)).text()),
    read: async () => Number(await (await fetch(url)).text()),
    async write(value, fence) {
      const response = await fencedFetch({ fence }, url, { method: 'PUT', body: String(value) })
      if (!response.ok) throw new Error(`The server answered ${response.status}.`)
    },
    close: async () => {},
  }
}

/** A counter in the memory of another process, which gets the fence in a message. */
const memory: OpenCounter = async (place, guarded) => {
  const url = `${place}/message/${guarded ? 'guarded' : 'unguarded'}`
  const send = async (message: { value?: number; fence: number }): Promise<void> => {
    const response = await fetch(url, { method: 'POST', body: JSON.stringify(message) })
    const { code, reason } = (await response.json()) as { code?: ErrorCode; reason?: string }
    if (code !== undefined) throw new LeaseholdError(code, 'The process refused it.', reason ? { reason } : {})
  }
  return {
    raise: (fence) => send({ fence }),
    read: async () => Number(await (await fetch(url)).text()),
    write: (value, fence) => send({ value, fence }),
    close: async () => {},
  }
}

const kinds: Readonly<Record<string, OpenCounter>> = {
  file,
  sqlite,
  postgres,
  mysql,
  ioredis,
  'node-redis': nodeRedis,
  mongodb,
  http,
  memory,
}

/** Opens the counter of a kind at a place: a file, or the address of a server. */
export function openCounter(kind: string, place: string, guarded: boolean): Promise<Counter> {
  const open = kinds[kind]
  if (open === undefined) throw new Error(`There is no counter of kind ${JSON.stringify(kind)}.`)
  return open(place, guarded)
}
