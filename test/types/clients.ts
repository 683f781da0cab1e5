// Compiled by test/unit/types.test.ts and scripts/consumers/types.mjs, with the clients' own types. Never run.
import type { NatsConnection } from '@nats-io/transport-node'
import { DynamoDB, DynamoDBClient } from '@aws-sdk/client-dynamodb'
import { Cluster, Redis } from 'ioredis'
import type { LockDriver } from 'leasehold'
import { mongoGuard, redisGuard, sqlGuard } from 'leasehold/guards'
import { dynamodb } from 'leasehold/dynamodb'
import { mongodb } from 'leasehold/mongodb'
import { nats } from 'leasehold/nats'
import { mysql } from 'leasehold/mysql'
import { postgres } from 'leasehold/postgres'
import { postgresAdvisory } from 'leasehold/postgres-advisory'
import { redis } from 'leasehold/redis'
import { createPool as createMariadbPool } from 'mariadb'
import { MongoClient } from 'mongodb'
import { createPool } from 'mysql2'
import { createPool as createPromisePool } from 'mysql2/promise'
import { Client, Pool } from 'pg'
import postgresJs from 'postgres'
import { createClient, createCluster } from 'redis'

const pool = new Pool()
const sql = postgresJs('postgres://127.0.0.1/shop')
const mongo = new MongoClient('mongodb://127.0.0.1')

export const drivers: readonly LockDriver[] = [
  redis(new Redis()),
  redis(new Cluster([{ host: '127.0.0.1' }])),
  redis(createClient()),
  redis({ client: createCluster({ rootNodes: [] }), prefix: 'locks:' }),
  postgres(pool),
  postgres(new Client()),
  postgres(sql, { schema: 'locks' }),
  postgresAdvisory(pool),
  mongodb(mongo),
  mongodb(mongo.db('shop')),
  dynamodb(new DynamoDBClient()),
  dynamodb(new DynamoDB(), { table: 'locks' }),
  mysql(createPool('mysql://127.0.0.1/shop')),
  mysql(createPromisePool('mysql://127.0.0.1/shop'), { table: 'locks' }),
  mysql(createMariadbPool('mariadb://127.0.0.1/shop')),
]

export const overNats = (connection: NatsConnection): LockDriver => nats(connection, { bucket: 'locks' })

export const guards = [redisGuard(new Redis()), redisGuard(createClient())] as const

export async function written(fence: number): Promise<void> {
  const rows = sqlGuard('postgres')
  const piece = rows.update({ table: 'orders', set: { state: 'paid' }, where: { id: 42 }, fence })
  rows.check(await pool.query(piece.sql, piece.values), 'orders/42', fence)
  const documents = mongoGuard()
  const orders = mongo.db('shop').collection('orders')
  const update = documents.update({ $set: { state: 'paid' } }, fence)
  documents.check(await orders.updateOne(documents.filter({ number: 42 }, fence), update), 'orders/42', fence)
}
