/** Makes the transport for a URL: our own connection to one server; for a Cluster, whichever client library is installed. */
import { loadFirst } from '../../core/machine/optional-package.ts'
import type { RedisAddress, ClusterAddress } from './address.ts'
import { IoredisTransport, type IoredisClient } from './ioredis.ts'
import type { RedisTransport } from './transport.ts'
import { NodeRedisClusterTransport, type NodeRedisCluster } from './node-redis.ts'
import { DirectTransport, reconnectAfterMs } from './direct-transport.ts'

const connectTimeoutMs = 5000
const silentNodeMs = 2000

interface Ioredis {
  readonly Cluster: new (nodes: readonly object[], options: object) => IoredisClient
}

interface NodeRedis {
  createCluster(options: object): NodeRedisCluster
}

/** A transport that is not open yet. Where both libraries are installed, ioredis: decision 020 has the figures. */
export async function dial(address: RedisAddress | ClusterAddress): Promise<RedisTransport> {
  if (!('nodes' in address)) return new DirectTransport(address)
  const { name, module } = await loadFirst('A Redis Cluster', [
    { name: 'ioredis', fits: ['5', '6'] },
    { name: 'redis', fits: ['4.6', '5', '6'] },
  ])
  return name === 'ioredis' ? dialIoredis(module as Ioredis, address) : dialNodeRedis(module as NodeRedis, address)
}

/** For `error` events, which would end the process otherwise: calls fail with the same error, and the client reconnects. */
function ignore(): void {}

function dialIoredis({ Cluster }: Ioredis, address: ClusterAddress): RedisTransport {
  const client = new Cluster(address.nodes, ioredisOptions(address))
  client.on('error', ignore)
  return new IoredisTransport(client, true)
}

/** A cluster's client itself sends a call again that a node refused, or left unanswered when its connection ended. */
function ioredisOptions({ tls, username, password }: ClusterAddress): object {
  return {
    lazyConnect: true,
    enableOfflineQueue: false,
    clusterRetryStrategy: reconnectAfterMs,
    // `MigratingSlots` sends the keys one by one whose slot is being moved.
    retryDelayOnTryAgain: 5,
    redisOptions: {
      username,
      password,
      ...(tls && { tls: {} }),
      connectTimeout: connectTimeoutMs,
      // Closes the connection to a node that is silent, and leaves the others.
      socketTimeout: silentNodeMs,
      disconnectTimeout: 10,
      keepAlive: 10_000,
    },
    // Certificates are for the names of nodes, not for their addresses.
    ...(tls && { dnsLookup: (host: string, found: (error: null, host: string) => void) => found(null, host) }),
  }
}

function dialNodeRedis(nodeRedis: NodeRedis, address: ClusterAddress): RedisTransport {
  const cluster = nodeRedis.createCluster(nodeRedisOptions(address))
  cluster.on('error', ignore)
  return new NodeRedisClusterTransport(cluster, true)
}

function nodeRedisOptions({ nodes, tls, username, password }: ClusterAddress): object {
  return {
    rootNodes: nodes.map((socket) => ({ socket: { ...socket, ...nodeRedisSocket(tls) } })),
    defaults: {
      username,
      password,
      // Closes the connection to a node that does not answer these either.
      pingInterval: silentNodeMs / 2,
      socket: { ...nodeRedisSocket(tls), socketTimeout: silentNodeMs },
    },
  }
}

function nodeRedisSocket(tls: boolean): object {
  return { ...(tls && { tls: true }), connectTimeout: connectTimeoutMs, reconnectStrategy: reconnectAfterMs }
}
