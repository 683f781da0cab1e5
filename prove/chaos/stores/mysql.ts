import { cpSync, rmSync } from 'node:fs'
import path from 'node:path'
import { MariadbServer } from '../../../test/support/mariadb-server.ts'
import { makeFolder, removeFolder } from '../../../test/support/scratch-folder.ts'
import { TcpProxy } from '../../../test/support/tcp-proxy.ts'
import { JumpingClock } from '../jumping-clock.ts'
import { processesMax, type ChaosStore } from '../store.ts'

/** A MariaDB that keeps what it has answered: each client has a proxy to it. */
export async function mysqlChaos(): Promise<ChaosStore> {
  const clock = new JumpingClock()
  const copies = makeFolder('chaos-copies')
  const server = await MariadbServer.start(
    { 'innodb-flush-log-at-trx-commit': '1', 'max-connections': '300' },
    { isToRestart: true, environment: clock.environment },
  )
  const proxies = await Promise.all(Array.from({ length: processesMax }, () => TcpProxy.start(server)))
  let copyCount = 0
  const copyData = (): string => {
    const copy = path.join(copies, `copy-${(copyCount += 1)}`)
    cpSync(server.dataFolder, copy, { recursive: true })
    return copy
  }
  await server.kill('SIGTERM')
  let older = copyData()
  await server.resume()

  return {
    url: (slot) => `mysql://root@127.0.0.1:${proxies[slot]?.port ?? server.port}/test`,
    directUrl: server.database,
    proxies,
    faults: {
      ...clock.faults,
      crash: {
        begin: async () => {
          await server.kill()
          return () => server.resume()
        },
      },
      restart: {
        begin: async () => {
          await server.kill('SIGTERM')
          return () => server.resume()
        },
      },
      'connections killed': {
        begin: async () => {
          await server.endConnections()
          return () => {}
        },
      },
      'read only': {
        begin: async () => {
          await server.query('set global read_only = 1')
          return async () => void (await server.query('set global read_only = 0'))
        },
      },
      'table dropped': {
        forgets: true,
        begin: async () => {
          await clock.beforeLoss()
          await server.query('drop table if exists test.leasehold_locks')
          return () => {}
        },
      },
      'restored from an older copy': {
        forgets: true,
        begin: async () => {
          await clock.beforeLoss()
          await server.kill('SIGTERM')
          return async () => {
            const copy = copyData()
            rmSync(server.dataFolder, { recursive: true })
            cpSync(older, server.dataFolder, { recursive: true })
            rmSync(older, { recursive: true })
            older = copy
            await server.resume()
          }
        },
      },
      frozen: {
        begin: () => {
          server.signal('SIGSTOP')
          return () => server.signal('SIGCONT')
        },
      },
    },
    stop: async () => {
      await Promise.all(proxies.map((proxy) => proxy.stop()))
      await server.stop()
      clock.remove()
      removeFolder(copies)
    },
  }
}
