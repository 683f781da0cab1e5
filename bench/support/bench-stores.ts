import type { LockDriver } from '../../src/core/contract/driver.ts'
import { memory } from '../../src/drivers/memory/driver.ts'
import { redis } from '../../src/drivers/redis/driver.ts'
import { sqlite } from '../../src/drivers/sqlite/driver.ts'

/** A store by its name; `where`: the port of the Redis server, or the path of the SQLite file. */
export function openStore(store: string, where: string): LockDriver {
  if (store === 'redis') return redis({ url: `redis://127.0.0.1:${where}` })
  if (store === 'sqlite') return sqlite({ file: where })
  return store === 'memory' ? memory() : keepsNothing()
}

/** A store that grants everything and keeps nothing: what is left is the client's. */
function keepsNothing(): LockDriver {
  const driver = memory()
  let fence = 2 ** 50
  driver.send = async (requests) =>
    requests.map((request) => {
      if (request.op === 'release') return { state: 'absent', reason: 'released' }
      fence += 1
      return { state: 'held', fence, ttlMs: 30_000 }
    })
  return driver
}
