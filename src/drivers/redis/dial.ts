/** Makes the client for a URL, out of whichever client library is installed. */
import { LeaseholdError } from '../../core/errors.ts'
import type { Address } from './address.ts'
import { replyOf } from './faults.ts'
import { IoredisLink, reconnectAfterMs, type IoredisClient } from './ioredis.ts'
import type { Link } from './link.ts'
import { NodeRedisLink, type NodeRedisClient } from './node-redis.ts'

const connectTimeoutMs = 5000

/** ioredis where there is a choice: decision 020 has the figures. */
export async function dial(address: Address): Promise<Link> {
  const ioredis = (await load('ioredis')) as { Redis: new (options: object) => IoredisClient } | undefined
  if (ioredis !== undefined) {
    const client = new ioredis.Redis(ioredisOptions(address))
    client.on('error', saidElsewhere)
    return new IoredisLink(client, true)
  }
  const nodeRedis = (await load('redis')) as { createClient(options: object): NodeRedisClient } | undefined
  if (nodeRedis !== undefined) {
    const client = nodeRedis.createClient(nodeRedisOptions(address))
    client.on('error', saidElsewhere)
    return new NodeRedisLink(client, true)
  }
  throw new LeaseholdError('UNAVAILABLE', 'The redis driver needs ioredis. Run: npm install ioredis', {
    reason: 'configuration',
  })
}

/** By the call that fails; and it is mended by dialling again. */
function saidElsewhere(): void {}

async function load(library: string): Promise<unknown> {
  try {
    return await import(library)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_MODULE_NOT_FOUND') return undefined
    throw error
  }
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
    keepAlive: 10_000,
  }
}

function nodeRedisOptions({ tls, host, port, path, username, password, db }: Address): object {
  return {
    socket: {
      ...(path === undefined ? { host, port } : { path }),
      ...(tls && { tls: true }),
      connectTimeout: connectTimeoutMs,
      reconnectStrategy: reconnectAfterMs,
    },
    username,
    password,
    database: db,
    disableOfflineQueue: true,
  }
}
