import { LeaseholdError } from '../../core/errors.ts'
import { decodedPart, hostAndPort, hostList, urlParameters, type HostAndPort } from '../kit/url.ts'

interface Login {
  readonly username?: string
  readonly password?: string
}

interface Prefixed {
  /** Begins every name in Redis. */
  readonly prefix?: string
}

/** The address of one Redis server, and how to sign in. */
export interface RedisAddress extends Login, Prefixed, Partial<HostAndPort> {
  /** A unix socket, instead of host and port. */
  readonly path?: string
  readonly tls: boolean
  readonly db: number
}

/** Some nodes of a Cluster, which know the other nodes, and how to sign in. */
export interface ClusterAddress extends Login, Prefixed {
  readonly nodes: readonly HostAndPort[]
  readonly tls: boolean
}

const hostDefault = '127.0.0.1'
const portDefault = 6379
const parameterNames = { db: true, username: true, password: true, prefix: true }
type Parameters = ReadonlyMap<string, string>

/**
 * Reads `redis://user:password@host:port/db`, `rediss://…` for TLS, `redis+unix:///path/to/socket?db=1` (also `unix:…`),
 * where `username` and `password` follow the path as `db` does, and `redis-cluster://user:password@host:port,host:port`
 * and `rediss-cluster://…` for a Cluster. Each may end with `?prefix=billing:`.
 */
export function parseRedisUrl(url: string): RedisAddress | ClusterAddress {
  const [, scheme, rest] = /^(rediss?)-cluster:\/\/(.*)$/s.exec(url) ?? []
  if (scheme !== undefined && rest !== undefined) return clusterAddress(scheme, rest)
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (parsed === undefined) throw invalidUrl()
  const { protocol, host, pathname } = parsed
  const parameters = parametersOf(parsed.search.slice(1))
  const shared = { ...loginOf(parsed, parameters), ...prefixOf(parameters) }
  switch (protocol) {
    case 'redis:':
    case 'rediss:': {
      const db = databaseOf(parameters.get('db') ?? pathname.slice(1))
      const server = hostAndPort(host === '' ? hostDefault : host, portDefault, invalidUrl)
      return { ...server, tls: protocol === 'rediss:', ...shared, db }
    }
    case 'unix:':
    case 'redis+unix:': {
      if (pathname === '') throw invalidUrl()
      const path = decodedPart(pathname, invalidUrl)
      return { path, tls: false, ...shared, db: databaseOf(parameters.get('db') ?? '') }
    }
    default:
      throw invalidUrl()
  }
}

function clusterAddress(scheme: string, rest: string): ClusterAddress {
  const [, login = '', hosts = '', database = '', query = ''] =
    /^([^/?#]*@)?([^@/?#]+)(?:\/(\d*))?(?:\?([^#]*))?$/s.exec(rest) ?? []
  const nodes = hostList(hosts, portDefault, invalidUrl)
  const parameters = parametersOf(query)
  const db = databaseOf(parameters.get('db') ?? database)
  if (db !== 0) throw new LeaseholdError('INVALID', 'A Redis Cluster has only database 0.')
  const signedIn = loginOf(new URL(`redis://${login}${hostDefault}`), parameters)
  return { nodes, tls: scheme === 'rediss', ...signedIn, ...prefixOf(parameters) }
}

function parametersOf(query: string): Parameters {
  return urlParameters(query, parameterNames, 'a Redis URL', invalidUrl)
}

function loginOf({ username: user, password: secret }: URL, parameters: Parameters): Login {
  const username = parameters.get('username') ?? decodedPart(user, invalidUrl)
  const password = parameters.get('password') ?? decodedPart(secret, invalidUrl)
  return { ...(username !== '' && { username }), ...(password !== '' && { password }) }
}

function prefixOf(parameters: Parameters): Prefixed {
  const prefix = parameters.get('prefix')
  return prefix === undefined ? {} : { prefix }
}

function databaseOf(text: string): number {
  if (text === '') return 0
  const db = Number(text)
  if (!Number.isInteger(db) || db < 0) throw invalidUrl()
  return db
}

/** Does not repeat the URL, which may hold a password. */
function invalidUrl(): LeaseholdError {
  const forms =
    'redis://user:password@host:6379/0, rediss://…, redis+unix:///path/to/redis.sock or redis-cluster://host:6379,host:6379'
  return new LeaseholdError('INVALID', `This is not the URL of a Redis. Use ${forms}.`)
}
