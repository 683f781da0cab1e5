/** Makes the client for a URL, out of whichever client library is installed. */
import { LeaseholdError } from '../../core/errors.ts'
import type { Address, ClusterAddress } from './address.ts'
import { replyOf } from './faults.ts'
import { IoredisLink, reconnectAfterMs, type IoredisClient } from './ioredis.ts'
import type { Link } from './link.ts'
import { NodeRedisClusterLink, NodeRedisLink, type NodeRedisClient, type NodeRedisCluster } from './node-redis.ts'

const connectTimeoutMs = 5000
const silentNodeMs = 2000

interface Ioredis {
  readonly Redis: new (options: object) => IoredisClient
  readonly Cluster: new (nodes: readonly object[], options: object) => IoredisClient
}

interface NodeRedis {
  createClient(options: object): NodeRedisClient
  createCluster(options: object): NodeRedisCluster
}

/** ioredis where there is a choice: decision 020 has the figures. */
export async function dial(address: Address | ClusterAddress): Promise<Link> {
  const ioredis = (await load('ioredis')) as Ioredis | undefined
  if (ioredis !== undefined) return dialIoredis(ioredis, address)
  const nodeRedis = (await load('redis')) as NodeRedis | undefined
  if (nodeRedis !== undefined) return dialNodeRedis(nodeRedis, address)
  throw new LeaseholdError('UNAVAILABLE', 'The redis driver needs ioredis. Run: npm install ioredis', {
    reason: 'configuration',
  })
}

async function load(library: string): Promise<unknown> {
  try {
    return await import(library)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_MODULE_NOT_FOUND') return undefined
    throw error
  }
}

/** By the call that fails; and it is mended by dialling again. */
function saidElsewhere(): void {}

function dialIoredis({ Redis, Cluster }: Ioredis, address: Address | ClusterAddress): Link {
  const client =
    'nodes' in address ? new Cluster(address.nodes, ioredisClusterOptions(address)) : new Redis(ioredisOptions(address))
  client.on('error', saidElsewhere)
  return new IoredisLink(client, true)
}

/** Nothing is queued while there is no connection, and nothing is sent twice: the client above decides about both. */
function ioredisOptions({ tls, ...address }: Address): object {
  return {
    ...address,
    ...(tls && { tls: {} }),
    lazyConnect: true,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    retryStrategy: reconnectAfterMs,
    // After a failover the old primary says READONLY: the address may lead to the new one by now.
    reconnectOnError: (error: Error) => replyOf(error).startsWith('READONLY'),
    connectTimeout: connectTimeoutMs,
    // A connection is given up because nothing comes through it: a farewell would not either.
    disconnectTimeout: 10,
    keepAlive: 10_000,
  }
}

/** A cluster's client sends again by itself what a node refused, or did not answer before it was gone. */
function ioredisClusterOptions({ tls, username, password }: ClusterAddress): object {
  return {
    lazyConnect: true,
    enableOfflineQueue: false,
    clusterRetryStrategy: reconnectAfterMs,
    // Keys that a slot's move has parted are asked for one by one: see `half-moved.ts`.
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

function dialNodeRedis(nodeRedis: NodeRedis, address: Address | ClusterAddress): Link {
  if ('nodes' in address) {
    const cluster = nodeRedis.createCluster(nodeRedisClusterOptions(address))
    cluster.on('error', saidElsewhere)
    return new NodeRedisClusterLink(cluster, true)
  }
  const client = nodeRedis.createClient(nodeRedisOptions(address))
  client.on('error', saidElsewhere)
  return new NodeRedisLink(client, true)
}

function nodeRedisOptions({ tls, host, port, path, username, password, db }: Address): object {
  return {
    socket: { ...(path === undefined ? { host, port } : { path }), ...nodeRedisSocket(tls) },
    username,
    password,
    database: db,
    disableOfflineQueue: true,
  }
}

function nodeRedisClusterOptions({ nodes, tls, username, password }: ClusterAddress): object {
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
