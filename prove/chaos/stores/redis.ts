import { cpSync, existsSync, mkdirSync, rmSync } from 'node:fs'
import path from 'node:path'
import { eventually } from '../../../test/support/eventually.ts'
import { RedisServer } from '../../../test/support/redis-server.ts'
import { makeFolder, removeFolder } from '../../../test/support/scratch-folder.ts'
import { TcpProxy } from '../../../test/support/tcp-proxy.ts'
import { limitDescriptors } from '../descriptors.ts'
import { JumpingClock } from '../jumping-clock.ts'
import { SmallDisk } from '../small-disk.ts'
import { processesMax, type ChaosStore } from '../store.ts'

/** Everything that was answered is on the disk. */
const durable = {
  appendonly: 'yes',
  appendfsync: 'always',
  'auto-aof-rewrite-min-size': '16mb',
  'repl-diskless-sync-delay': '0',
}

/** A primary, and a replica that takes its place in a failover: each client has a proxy to whichever is the primary. */
export async function redisChaos(): Promise<ChaosStore> {
  const disk = new SmallDisk(512)
  const clock = new JumpingClock()
  const copies = makeFolder('chaos-copies')
  const launch = (name: string): Promise<RedisServer> => {
    const dir = path.join(disk.folder, name)
    mkdirSync(dir)
    folders.set(name, dir)
    return RedisServer.start({ settings: { ...durable, dir }, environment: clock.environment })
  }
  const folders = new Map<string, string>()
  const servers = [await launch('first'), await launch('second')]
  let [primary, replica] = servers as [RedisServer, RedisServer]
  const folderOf = (server: RedisServer): string => folders.get(server === servers[0] ? 'first' : 'second') ?? ''
  const follow = (): Promise<string> => replica.cli('REPLICAOF', '127.0.0.1', String(primary.port))
  await follow()
  const proxies = await Promise.all(Array.from({ length: processesMax }, () => TcpProxy.start(primary)))

  /** Ends the primary as a crash would, and starts it again at the end, with other files if there are any. */
  const restart = (replace?: (folder: string) => void) => async (): Promise<() => Promise<void>> => {
    if (replace !== undefined) await clock.beforeLoss()
    await primary.kill()
    return async () => {
      replace?.(folderOf(primary))
      await primary.start()
      await follow()
    }
  }

  return {
    url: (slot) => `redis://127.0.0.1:${proxies[slot]?.port ?? primary.port}`,
    get directUrl() {
      return primary.url
    },
    proxies,
    faults: {
      ...clock.faults,
      ...disk.faults(async () => {
        // A server that must keep everything ends when it cannot.
        for (const server of servers) if (!server.isRunning) await server.start()
        await follow()
      }),
      'killed and restarted': { begin: restart() },
      'restarted empty': {
        forgets: true,
        begin: restart((folder) => rmSync(path.join(folder, 'appendonlydir'), { recursive: true, force: true })),
      },
      'restored from an older copy': {
        forgets: true,
        begin: restart((folder) => {
          const files = path.join(folder, 'appendonlydir')
          const next = path.join(copies, 'next')
          const older = path.join(copies, 'older')
          cpSync(files, next, { recursive: true })
          if (existsSync(older)) {
            rmSync(files, { recursive: true, force: true })
            cpSync(older, files, { recursive: true })
            rmSync(older, { recursive: true })
          }
          cpSync(next, older, { recursive: true })
          rmSync(next, { recursive: true })
        }),
      },
      // What the replica lacks is lost: nobody waits for it.
      failover: {
        forgets: true,
        begin: async () => {
          await clock.beforeLoss()
          await primary.kill()
          return async () => {
            ;[primary, replica] = [replica, primary]
            await primary.cli('REPLICAOF', 'NO', 'ONE')
            for (const proxy of proxies) proxy.redirect(primary)
            await replica.start()
            await follow()
            const isLinked = async (): Promise<boolean> =>
              (await replica.cli('INFO', 'replication')).includes('master_link_status:up')
            await eventually(isLinked, 'The replica')
          }
        },
      },
      frozen: {
        begin: () => {
          const frozen = primary
          frozen.freeze()
          return () => frozen.thaw()
        },
      },
      'scripts flushed': {
        begin: async () => {
          await primary.cli('SCRIPT', 'FLUSH')
          return () => {}
        },
      },
      'no descriptors': {
        begin: () => {
          const { pid } = primary
          limitDescriptors(pid, 8)
          for (const proxy of proxies) proxy.cut()
          return () => limitDescriptors(pid, 10_000)
        },
      },
    },
    stop: async () => {
      await Promise.all(proxies.map((proxy) => proxy.stop()))
      await Promise.all(servers.map((server) => server.stop()))
      clock.remove()
      disk.remove()
      removeFolder(copies)
    },
  }
}
