import { RedisCluster } from '../../../test/support/redis-cluster.ts'
import type { RedisServer } from '../../../test/support/redis-server.ts'
import { chosen } from '../chosen.ts'
import type { ChaosStore, Heal } from '../store.ts'

/** Three primaries that keep what they answered. Nodes name each other to clients: there is no proxy in between. */
export async function redisClusterChaos(): Promise<ChaosStore> {
  const cluster = await RedisCluster.start({ settings: { appendonly: 'yes', appendfsync: 'always' } })
  const { servers } = cluster
  const url = `redis-cluster://${servers.map(({ port }) => `127.0.0.1:${port}`).join(',')}`
  const at = (choice: number): RedisServer => chosen(servers, choice)
  const restarted = async (some: readonly RedisServer[]): Promise<Heal> => {
    await Promise.all(some.map((server) => server.kill()))
    return async () => void (await Promise.all(some.map((server) => server.start())))
  }
  return {
    url: () => url,
    directUrl: url,
    proxies: [],
    faults: {
      'a node killed and restarted': { begin: (choice) => restarted([at(choice)]) },
      'all nodes killed and restarted': { begin: () => restarted(servers) },
      'a node frozen': {
        begin: (choice) => {
          at(choice).freeze()
          return () => at(choice).thaw()
        },
      },
      'connections cut': {
        begin: async () => {
          await Promise.all(servers.map((server) => server.cli('CLIENT', 'KILL', 'TYPE', 'normal')))
          return () => {}
        },
      },
      'scripts flushed': {
        begin: async () => {
          await Promise.all(servers.map((server) => server.cli('SCRIPT', 'FLUSH')))
          return () => {}
        },
      },
    },
    stop: () => cluster.stop(),
  }
}
