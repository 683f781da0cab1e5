import { LeaseholdError } from '../../core/errors.ts'

/** Where a Redis is, and how to sign in. */
export interface Address {
  readonly host?: string
  readonly port?: number
  /** A unix socket, instead of host and port. */
  readonly path?: string
  readonly tls: boolean
  readonly username?: string
  readonly password?: string
  readonly db: number
}

const portDefault = 6379

/**
 * Reads `redis://user:password@host:port/db`, `rediss://…` for TLS, and `redis+unix:///path/to/socket?db=1` (also
 * `unix:…`), where `username` and `password` follow the path as `db` does.
 */
export function parseAddress(url: string): Address {
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (parsed === undefined) throw invalid()
  const { protocol, hostname, port, pathname, searchParams } = parsed
  const username = searchParams.get('username') ?? decodeURIComponent(parsed.username)
  const password = searchParams.get('password') ?? decodeURIComponent(parsed.password)
  const login = { ...(username !== '' && { username }), ...(password !== '' && { password }) }
  switch (protocol) {
    case 'redis:':
    case 'rediss:': {
      const db = databaseOf(searchParams.get('db') ?? pathname.slice(1))
      // Brackets belong to the URL, not to the IPv6 address.
      const host = hostname === '' ? '127.0.0.1' : hostname.replaceAll(/^\[|\]$/g, '')
      return { host, port: Number(port || portDefault), tls: protocol === 'rediss:', ...login, db }
    }
    case 'unix:':
    case 'redis+unix:':
      if (pathname === '') throw invalid()
      return { path: decodeURIComponent(pathname), tls: false, ...login, db: databaseOf(searchParams.get('db') ?? '') }
    default:
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
  const forms = 'redis://user:password@host:6379/0, rediss://… or redis+unix:///path/to/redis.sock'
  return new LeaseholdError('INVALID', `This is not the URL of a Redis. Use ${forms}.`)
}
