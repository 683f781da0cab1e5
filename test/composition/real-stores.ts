/** Stores that run in processes of their own, for a matrix of compositions, in real time. */
import { cpSync, existsSync, rmSync } from 'node:fs'
import path from 'node:path'
import { etcd } from '../../src/drivers/etcd/driver.ts'
import { postgres } from '../../src/drivers/postgres/driver.ts'
import { redis } from '../../src/drivers/redis/driver.ts'
import { s3 } from '../../src/drivers/s3/driver.ts'
import { EtcdServer } from '../support/etcd-server.ts'
import { freshS3Prefix, type S3Server } from '../support/s3-server.ts'
import type { PostgresServer } from '../support/postgres-server.ts'
import { RedisServer } from '../support/redis-server.ts'
import type { MakeStore } from './stores.ts'

/** A Redis of its own. What it keeps on disk is written when it is copied, or about to be killed. */
export const redisStore: MakeStore = async () => {
  const server = await RedisServer.start()
  const [dump, copy] = ['dump.rdb', 'copy.rdb'].map((name) => path.join(server.folder, name)) as [string, string]
  const restart = async (prepare: () => void): Promise<void> => {
    await server.kill()
    prepare()
    await server.start()
  }
  return {
    url: server.url,
    driver: () => redis(server.url),
    comesBackEmpty: () => restart(() => rmSync(dump, { force: true })),
    async copy() {
      await server.cli('SAVE')
      cpSync(dump, copy)
    },
    restore: () => restart(() => cpSync(copy, dump)),
    async restarts() {
      await server.cli('SAVE')
      await restart(() => {})
    },
    async endConnections() {
      for (const type of ['normal', 'pubsub']) await server.cli('CLIENT', 'KILL', 'TYPE', type)
    },
    discard: () => server.stop(),
  }
}

let schemas = 0

/** A schema of one PostgreSQL, which is copied and restored as a whole. */
export function postgresStore(server: PostgresServer): MakeStore {
  return async () => {
    const schema = `composition_${(schemas += 1)}`
    const copy = `${server.directory}.copy`
    return {
      url: `${server.url}?schema=${schema}`,
      driver: () => postgres(server.url, { schema, poolSize: 2 }),
      comesBackEmpty: async () => void (await server.sql(`drop schema ${schema} cascade`)),
      async copy() {
        await server.stop('fast')
        rmSync(copy, { recursive: true, force: true })
        server.copyData(copy)
        await server.resume()
      },
      async restore() {
        await server.stop('immediate')
        server.replaceData(copy)
        await server.resume()
      },
      async restarts() {
        await server.stop('immediate')
        await server.resume()
      },
      async endConnections() {
        await server.sql(
          `select pg_terminate_backend(pid) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()`,
        )
      },
      async discard() {
        await server.sql(`drop schema if exists ${schema} cascade`)
        rmSync(copy, { recursive: true, force: true })
      },
    }
  }
}

/** A bucket in a server that keeps its objects in memory. */
export const s3StoreOn =
  (server: S3Server): MakeStore =>
  async () => {
    const prefix = freshS3Prefix()
    return {
      driver: () => s3(server.options(prefix)),
      comesBackEmpty: () => server.removeAll(prefix),
      discard: () => server.removeAll(prefix),
    }
  }

/** An etcd of its own. */
export const etcdStore: MakeStore = async () => {
  const server = await EtcdServer.start()
  const copy = `${server.dataFolder}.copy`
  const restart = async (prepare: () => void): Promise<void> => {
    await server.kill()
    prepare()
    await server.start()
  }
  return {
    url: server.url,
    driver: () => etcd(server.url),
    comesBackEmpty: () => restart(() => rmSync(server.dataFolder, { recursive: true, force: true })),
    copy: () => restart(() => cpSync(server.dataFolder, copy, { recursive: true })),
    restore: () =>
      restart(() => {
        rmSync(server.dataFolder, { recursive: true, force: true })
        if (existsSync(copy)) cpSync(copy, server.dataFolder, { recursive: true })
      }),
    restarts: () => restart(() => {}),
    discard: () => server.stop(),
  }
}
