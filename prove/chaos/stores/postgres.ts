import { existsSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import path from 'node:path'
import { PostgresServer } from '../../../test/support/postgres-server.ts'
import { makeFolder, removeFolder } from '../../../test/support/scratch-folder.ts'
import { TcpProxy } from '../../../test/support/tcp-proxy.ts'
import { JumpingClock } from '../jumping-clock.ts'
import { SmallDisk } from '../small-disk.ts'
import { processesMax, type ChaosStore } from '../store.ts'

/** What is answered survives the end of the server; the machine itself does not crash. */
const settings = {
  synchronous_commit: 'local',
  fsync: 'off',
  max_wal_size: '64MB',
  min_wal_size: '32MB',
  wal_level: 'replica',
  shared_buffers: '32MB',
}

/** A primary, and a standby that is promoted in a failover: each client has a proxy to whichever is the primary. */
export async function postgresChaos(): Promise<ChaosStore> {
  const disk = new SmallDisk(1024)
  const clock = new JumpingClock()
  const copies = makeFolder('chaos-copies')
  let primary = await disk.host(() => PostgresServer.start({ settings, environment: clock.environment }))
  let standby = await disk.host(() => primary.startStandby())
  const proxies = await Promise.all(Array.from({ length: processesMax }, () => TcpProxy.start(primary)))
  const first = path.join(copies, 'first')
  let older: string | undefined
  let copyCount = 0
  await primary.stop('fast')
  primary.copyData(first)
  await primary.resume()

  /** The standby cannot follow a primary whose past has changed: it is made anew. */
  const renewStandby = async (): Promise<void> => {
    await standby.destroy()
    standby = await disk.host(() => primary.startStandby())
  }
  const crash = async (): Promise<() => Promise<void>> => {
    await primary.stop('immediate')
    return () => primary.resume()
  }

  return {
    url: (slot) => `postgres://postgres@127.0.0.1:${proxies[slot]?.port ?? primary.port}/postgres`,
    get directUrl() {
      return primary.url
    },
    proxies,
    faults: {
      ...clock.faults,
      ...disk.faults(async () => {
        // It ends when it cannot write what it must.
        for (const server of [primary, standby]) if (!server.isRunning) await server.resume()
      }),
      crash: { begin: crash },
      restart: {
        begin: async () => {
          await primary.stop('fast')
          return () => primary.resume()
        },
      },
      'restarted empty': {
        forgets: true,
        begin: async () => {
          await clock.beforeLoss()
          await primary.stop('immediate')
          return async () => {
            primary.replaceData(first)
            await primary.resume()
            await renewStandby()
          }
        },
      },
      'restored from an older copy': {
        forgets: true,
        begin: async () => {
          await clock.beforeLoss()
          await primary.stop('immediate')
          return async () => {
            const copy = path.join(copies, `copy-${(copyCount += 1)}`)
            primary.copyData(copy)
            primary.replaceData(older ?? first)
            if (older !== undefined) rmSync(older, { recursive: true })
            older = copy
            await primary.resume()
            await renewStandby()
          }
        },
      },
      // What the standby lacks is lost: nobody waits for it.
      failover: {
        forgets: true,
        begin: async () => {
          await clock.beforeLoss()
          await primary.stop('immediate')
          return async () => {
            await standby.sql('select pg_promote()')
            const dead = primary
            primary = standby
            for (const proxy of proxies) proxy.redirect(primary)
            standby = dead
            await renewStandby()
          }
        },
      },
      frozen: {
        begin: () => {
          const pids = processesOf(primary)
          for (const pid of pids) signal(pid, 'SIGSTOP')
          return () => pids.forEach((pid) => signal(pid, 'SIGCONT'))
        },
      },
    },
    stop: async () => {
      await Promise.all(proxies.map((proxy) => proxy.stop()))
      await standby.destroy()
      await primary.destroy()
      clock.remove()
      disk.remove()
      removeFolder(copies)
    },
  }
}

/** The server and all its processes now. */
function processesOf({ directory }: PostgresServer): number[] {
  const file = path.join(directory, 'postmaster.pid')
  if (!existsSync(file)) return []
  const postmaster = Number(readFileSync(file, 'utf8').split('\n')[0])
  const all = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return [postmaster, ...all.map(Number).filter((pid) => parentOf(pid) === postmaster)]
}

function parentOf(pid: number): number | undefined {
  try {
    return Number(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ')[1])
  } catch {
    // It has ended.
    return undefined
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // It has ended.
  }
}
