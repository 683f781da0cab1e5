import { LeaseholdError } from '../../core/errors.ts'
import { checkOptions } from '../../core/contract/option-names.ts'

export interface HostAndPort {
  readonly host: string
  readonly port: number
}

/** How to sign in. */
interface Login {
  readonly username?: string
  readonly password?: string
}

/** Where a Redis is, and how to sign in. */
export interface Address extends Login, Partial<HostAndPort> {
  /** A unix socket, instead of host and port. */
  readonly path?: string
  readonly tls: boolean
  readonly db: number
}

/** Where some nodes of a Cluster are: they know the others. */
export interface ClusterAddress extends Login {
  readonly nodes: readonly HostAndPort[]
  readonly tls: boolean
}

const portDefault = 6379
const parameterNames = { db: true, username: true, password: true }

/**
 * Reads `redis://user:password@host:port/db`, `rediss://…` for TLS, `redis+unix:///path/to/socket?db=1` (also `unix:…`),
 * where `username` and `password` follow the path as `db` does, and `redis-cluster://user:password@host:port,host:port`
 * and `rediss-cluster://…` for a Cluster.
 */
export function parseAddress(url: string): Address | ClusterAddress {
  const [, scheme, rest] = /^(rediss?)-cluster:\/\/(.*)$/s.exec(url) ?? []
  if (scheme !== undefined && rest !== undefined) return clusterAddress(scheme, rest)
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (parsed === undefined) throw invalid()
  const { protocol, pathname, searchParams } = parsed
  checkOptions(Object.fromEntries(searchParams), parameterNames, 'a Redis URL')
  const login = loginOf(parsed)
  switch (protocol) {
    case 'redis:':
    case 'rediss:': {
      const db = databaseOf(searchParams.get('db') ?? pathname.slice(1))
      return { ...hostAndPort(parsed), tls: protocol === 'rediss:', ...login, db }
    }
    case 'unix:':
    case 'redis+unix:':
      if (pathname === '') throw invalid()
      return { path: decoded(pathname), tls: false, ...login, db: databaseOf(searchParams.get('db') ?? '') }
    default:
      throw invalid()
  }
}

function clusterAddress(scheme: string, rest: string): ClusterAddress {
  const [, login = '', hosts = '', database = ''] = /^([^/?#]*@)?([^@/?#]+)(?:\/(\d*))?$/s.exec(rest) ?? []
  // Each host with the login before it is a URL again.
  const urls = hosts.split(',').map((host) => `redis://${login}${host}`)
  if (hosts === '' || hosts.split(',').includes('') || !urls.every((url) => URL.canParse(url))) throw invalid()
  if (databaseOf(database) !== 0) throw new LeaseholdError('INVALID', 'A Redis Cluster has only database 0.')
  const nodes = urls.map((url) => new URL(url))
  return { nodes: nodes.map((node) => hostAndPort(node)), tls: scheme === 'rediss', ...loginOf(nodes[0] as URL) }
}

function hostAndPort({ hostname, port }: URL): HostAndPort {
  // Brackets belong to the URL, not to the IPv6 address.
  const host = hostname === '' ? '127.0.0.1' : hostname.replaceAll(/^\[|\]$/g, '')
  return { host, port: Number(port || portDefault) }
}

function loginOf({ username: user, password: secret, searchParams }: URL): Login {
  const username = searchParams.get('username') ?? decoded(user)
  const password = searchParams.get('password') ?? decoded(secret)
  return { ...(username !== '' && { username }), ...(password !== '' && { password }) }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw invalid()
  }
}

function databaseOf(text: string): number {
  if (text === '') return 0
  const db = Number(text)
  if (!Number.isInteger(db) || db < 0) throw invalid()
  return db
}

/** Says nothing of the URL itself: it may hold a password. */
function invalid(): LeaseholdError {
  const forms =
    'redis://user:password@host:6379/0, rediss://…, redis+unix:///path/to/redis.sock or redis-cluster://host:6379,host:6379'
  return new LeaseholdError('INVALID', `This is not the URL of a Redis. Use ${forms}.`)
}
