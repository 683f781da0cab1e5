import type { ChaosStore } from './store.ts'

/** The stores that chaos can be played on. A new one is a line here and a file beside. */
export const chaosStores: Readonly<Record<string, (seed: number) => Promise<ChaosStore>>> = {
  sqlite: async (seed) => (await import('./stores/sqlite.ts')).sqliteChaos(seed),
  redis: async () => (await import('./stores/redis.ts')).redisChaos(),
  postgres: async () => (await import('./stores/postgres.ts')).postgresChaos(),
  'redis-cluster': async () => (await import('./stores/redis-cluster.ts')).redisClusterChaos(),
  etcd: async () => (await import('./stores/etcd.ts')).etcdChaos(),
  nats: async () => (await import('./stores/nats.ts')).natsChaos(),
  quorum: async () => (await import('./stores/quorum.ts')).quorumChaos(),
  http: async () => (await import('./stores/http.ts')).httpChaos(),
  mysql: async () => (await import('./stores/mysql.ts')).mysqlChaos(),
  dynamodb: async () => (await import('./stores/dynamodb.ts')).dynamodbChaos(),
  s3: async () => (await import('./stores/s3.ts')).s3Chaos(),
  mongodb: async () => (await import('./stores/mongodb.ts')).mongodbChaos(),
}
