/** Makes the link for a URL: our own to one server, and to a Cluster over whichever client library is installed. */
import { loadFirst } from '../../core/machine/optional-package.ts'
import type { Address, ClusterAddress } from './address.ts'
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

/** ioredis where there is a choice: decision 020 has the figures. */
export async function dial(address: Address | ClusterAddress): Promise<RedisTransport> {
  if (!('nodes' in address)) return new DirectTransport(address)
  const { name, module } = await loadFirst('A Redis Cluster', [
    { name: 'ioredis', fits: ['5', '6'] },
    { name: 'redis', fits: ['4.6', '5', '6'] },
  ])
  return name === 'ioredis' ? dialIoredis(module as Ioredis, address) : dialNodeRedis(module as NodeRedis, address)
}

/** By the call that fails; and it is mended by dialling again. */
function saidElsewhere(): void {}

function dialIoredis({ Cluster }: Ioredis, address: ClusterAddress): RedisTransport {
  const client = new Cluster(address.nodes, ioredisOptions(address))
  client.on('error', saidElsewhere)
  return new IoredisTransport(client, true)
}

/** A cluster's client sends again by itself what a node refused, or did not answer before it was gone. */
function ioredisOptions({ tls, username, password }: ClusterAddress): object {
  return {
    lazyConnect: true,
    enableOfflineQueue: false,
    clusterRetryStrategy: reconnectAfterMs,
    // Keys that a slot's move has parted are asked for one by one: see `migrating-slots.ts`.
    retryDelayOnTryAgain: 5,
    redisOptions: {
      username,
      password,
      ...(tls && { tls: {} }),
      connectTimeout: connectTimeoutMs,
      // A node that is silent has its connection closed, and no other has.
      socketTimeout: silentNodeMs,
      disconnectTimeout: 10,
      keepAlive: 10_000,
    },
    // Certificates are for the names that nodes go by, not for what those resolve to.
    ...(tls && { dnsLookup: (host: string, found: (error: null, host: string) => void) => found(null, host) }),
  }
}

function dialNodeRedis(nodeRedis: NodeRedis, address: ClusterAddress): RedisTransport {
  const cluster = nodeRedis.createCluster(nodeRedisOptions(address))
  cluster.on('error', saidElsewhere)
  return new NodeRedisClusterTransport(cluster, true)
}

function nodeRedisOptions({ nodes, tls, username, password }: ClusterAddress): object {
  return {
    rootNodes: nodes.map((socket) => ({ socket: { ...socket, ...nodeRedisSocket(tls) } })),
    defaults: {
      username,
      password,
      // Closes the connection to a node that does not even answer these.
      pingInterval: silentNodeMs / 2,
      socket: { ...nodeRedisSocket(tls), socketTimeout: silentNodeMs },
    },
  }
}

function nodeRedisSocket(tls: boolean): object {
  return { ...(tls && { tls: true }), connectTimeout: connectTimeoutMs, reconnectStrategy: reconnectAfterMs }
}
