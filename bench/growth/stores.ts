/** A fresh store for each curve, in servers of the bench's own. */
import path from 'node:path'
import type { LockDriver } from '../../src/core/contract/driver.ts'
import { etcd } from '../../src/drivers/etcd/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { mongodb } from '../../src/drivers/mongodb/driver.ts'
import { postgres } from '../../src/drivers/postgres/driver.ts'
import { redis } from '../../src/drivers/redis/driver.ts'
import { sqlite } from '../../src/drivers/sqlite/driver.ts'
import { EtcdServer } from '../../test/support/etcd-server.ts'
import { MongoServer } from '../../test/support/mongo-server.ts'
import { PostgresServer } from '../../test/support/postgres-server.ts'
import { RedisServer } from '../../test/support/redis-server.ts'
import { makeFolder, removeFolder } from '../../test/support/scratch-folder.ts'
import type { StoreName } from './curve.ts'

/** A store that runs. */
export interface StartedStore {
  /** A URL, the path of a file, or the name of a store in memory. */
  readonly where: string
  stop(): Promise<void>
}

export async function startStore(store: StoreName): Promise<StartedStore> {
  switch (store) {
    case 'memory':
      return { where: 'growth', stop: async () => {} }
    case 'sqlite': {
      const folder = makeFolder('growth')
      return { where: path.join(folder, 'locks.sqlite'), stop: async () => removeFolder(folder) }
    }
    case 'redis': {
      const server = await RedisServer.start({ settings: { 'slowlog-max-len': '100000' } })
      return { where: server.url, stop: () => server.stop() }
    }
    case 'postgres': {
      const server = await PostgresServer.start({ settings: { max_connections: 600 } })
      return { where: server.url, stop: () => server.destroy() }
    }
    case 'mongodb': {
      const server = await MongoServer.start()
      return { where: server.url, stop: () => server.stop() }
    }
    case 'etcd': {
      const server = await EtcdServer.start()
      return { where: server.url, stop: () => server.stop() }
    }
  }
}

/** A driver of a started store. Drivers in other processes share the store, except that of memory. */
export function driverOf(store: StoreName, where: string): LockDriver {
  switch (store) {
    case 'memory':
      return memory({ name: where })
    case 'sqlite':
      return sqlite({ file: where })
    case 'redis':
      return redis({ url: where })
    case 'postgres':
      return postgres(where)
    case 'mongodb':
      return mongodb(where)
    case 'etcd':
      return etcd(where)
  }
}
