import { rmSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { RedisServer } from '../../../test/support/redis-server.ts'
import { TcpProxy } from '../../../test/support/tcp-proxy.ts'
import { chosen } from '../chosen.ts'
import { processesMax, type ChaosStore, type Heal } from '../store.ts'

/** A node that was restarted has no vote for so long: more than any lease of the run. */
const votesAfterMs = 4000

/** Three Redis servers: each client has a proxy to each. One of them at a time may lose everything. */
export async function quorumChaos(): Promise<ChaosStore> {
  const settings = { appendonly: 'yes', appendfsync: 'always' }
  const servers = await Promise.all([0, 1, 2].map(() => RedisServer.start({ settings })))
  const lines = await Promise.all(
    Array.from({ length: processesMax }, () => Promise.all(servers.map((server) => TcpProxy.start(server)))),
  )
  const proxies = lines.flat()
  const urlOf = (nodes: readonly { readonly port: number }[]): string =>
    `quorum:${nodes.map(({ port }) => `redis://127.0.0.1:${port}`).join(',')},?votesAfter=${votesAfterMs}ms`
  const at = (choice: number): RedisServer => chosen(servers, choice)
  const restart = async (server: RedisServer, before: () => void = () => {}): Promise<Heal> => {
    await server.kill()
    return async () => {
      before()
      await server.start()
      // The next fault comes when it votes again: without a majority there is nothing to see.
      await pause(votesAfterMs)
    }
  }
  await pause(votesAfterMs)
  return {
    url: (slot) => urlOf(lines[slot] ?? servers),
    directUrl: urlOf(servers),
    proxies,
    faults: {
      'a node killed and restarted': { begin: (choice) => restart(at(choice)) },
      'a node restarted empty': {
        begin: (choice) => {
          const server = at(choice)
          return restart(server, () =>
            rmSync(path.join(server.folder, 'appendonlydir'), { recursive: true, force: true }),
          )
        },
      },
      'a node frozen': {
        begin: (choice) => {
          at(choice).freeze()
          return () => at(choice).thaw()
        },
      },
      'all nodes frozen': {
        begin: () => {
          for (const server of servers) server.freeze()
          return () => servers.forEach((server) => server.thaw())
        },
      },
    },
    often: ['a node frozen'],
    stop: async () => {
      await Promise.all(proxies.map((proxy) => proxy.stop()))
      await Promise.all(servers.map((server) => server.stop()))
    },
  }
}
