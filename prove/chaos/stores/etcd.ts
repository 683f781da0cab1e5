import { EtcdServer, urlOf } from '../../../test/support/etcd-server.ts'
import { TcpProxy } from '../../../test/support/tcp-proxy.ts'
import { chosen } from '../chosen.ts'
import { processesMax, type ChaosStore, type Heal } from '../store.ts'

/** Three nodes: each client has a proxy to each. */
export async function etcdChaos(): Promise<ChaosStore> {
  const servers = await EtcdServer.startCluster(3)
  const lines = await Promise.all(
    Array.from({ length: processesMax }, () => Promise.all(servers.map((server) => TcpProxy.start(server)))),
  )
  const proxies = lines.flat()
  const at = (choice: number): EtcdServer => chosen(servers, choice)
  const leader = async (): Promise<EtcdServer> => {
    for (const server of servers) if (await server.isLeader().catch(() => false)) return server
    return at(0)
  }
  const killed = async (some: readonly EtcdServer[]): Promise<Heal> => {
    await Promise.all(some.map((server) => server.kill()))
    // Without the others a node does not become healthy.
    return async () => void (await Promise.all(some.map((server) => server.start())))
  }
  const frozen = (some: readonly EtcdServer[]): Heal => {
    for (const server of some) server.freeze()
    return () => some.forEach((server) => server.thaw())
  }
  return {
    url: (slot) => urlOf(lines[slot] ?? servers),
    directUrl: urlOf(servers),
    proxies,
    faults: {
      'a node killed and restarted': { begin: (choice) => killed([at(choice)]) },
      'the leader killed and restarted': { begin: async () => killed([await leader()]) },
      'two nodes killed and restarted': { begin: (choice) => killed([at(choice), at(choice + 1)]) },
      'all nodes killed and restarted': { begin: () => killed(servers) },
      'a node frozen': { begin: (choice) => frozen([at(choice)]) },
      'the leader frozen': { begin: async () => frozen([await leader()]) },
      'all nodes frozen': { begin: () => frozen(servers) },
      'another leader': {
        begin: async (choice) => {
          await (await leader()).moveLeaderTo(at(choice)).catch(() => {})
          return () => {}
        },
      },
    },
    stop: async () => {
      await Promise.all(proxies.map((proxy) => proxy.stop()))
      await Promise.all(servers.map((server) => server.stop()))
    },
  }
}
