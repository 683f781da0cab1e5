import { NatsServer, natsUrlOf, replicatingNats } from '../../../test/support/nats-server.ts'
import { TcpProxy } from '../../../test/support/tcp-proxy.ts'
import { chosen } from '../chosen.ts'
import { processesMax, type ChaosStore, type Heal } from '../store.ts'

const bucket = 'leasehold'

/** Three servers that keep one bucket: each client has a proxy to each. */
export async function natsChaos(): Promise<ChaosStore> {
  const servers = await NatsServer.startCluster(3, { program: replicatingNats() })
  await makeBucket(servers)
  const lines = await Promise.all(
    Array.from({ length: processesMax }, () => Promise.all(servers.map((server) => TcpProxy.start(server)))),
  )
  const proxies = lines.flat()
  const at = (choice: number): NatsServer => chosen(servers, choice)
  const leader = async (): Promise<NatsServer> => {
    const [first] = servers.filter(({ isRunning }) => isRunning)
    const answer = await first?.api(`STREAM.INFO.KV_${bucket}`).catch(() => undefined)
    return servers.find(({ name }) => name === answer?.cluster?.leader) ?? at(0)
  }
  const killed = async (some: readonly NatsServer[]): Promise<Heal> => {
    await Promise.all(some.map((server) => server.kill()))
    // Without the others a server has no JetStream.
    return async () => void (await Promise.all(some.map((server) => server.start())))
  }
  const frozen = (some: readonly NatsServer[]): Heal => {
    for (const server of some) server.freeze()
    return () => some.forEach((server) => server.thaw())
  }
  return {
    url: (slot) => urlFor(lines[slot] ?? servers),
    directUrl: urlFor(servers),
    proxies,
    faults: {
      'a server killed and restarted': { begin: (choice) => killed([at(choice)]) },
      'the leader killed and restarted': { begin: async () => killed([await leader()]) },
      'two servers killed and restarted': { begin: (choice) => killed([at(choice), at(choice + 1)]) },
      'all servers killed and restarted': { begin: () => killed(servers) },
      'a server frozen': { begin: (choice) => frozen([at(choice)]) },
      'the leader frozen': { begin: async () => frozen([await leader()]) },
      'all servers frozen': { begin: () => frozen(servers) },
      'another leader': {
        begin: async () => {
          await (await leader()).api(`STREAM.LEADER.STEPDOWN.KV_${bucket}`).catch(() => {})
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

function urlFor(ports: readonly { readonly port: number }[]): string {
  return `${natsUrlOf(ports)}?bucket=${bucket}`
}

/** On all three servers: a URL names no replicas. */
async function makeBucket([server]: readonly NatsServer[]): Promise<void> {
  const { error } = (await server?.api(`STREAM.CREATE.KV_${bucket}`, {
    name: `KV_${bucket}`,
    subjects: [`$KV.${bucket}.>`],
    num_replicas: 3,
    max_msgs_per_subject: 1,
    discard: 'new',
    storage: 'file',
    deny_delete: true,
    allow_rollup_hdrs: true,
  })) ?? { error: { description: 'no server' } }
  if (error !== undefined) throw new Error(error.description)
}
