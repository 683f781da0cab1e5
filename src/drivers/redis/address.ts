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
 * `unix:…`), where user and password may stand before the path: `redis+unix://:password@/path`.
 */
export function parseAddress(url: string): Address {
  let parsed: URL
  try {
    parsed = new URL(url)
  } catch (cause) {
    throw invalid(cause)
  }
  const { protocol, username, password, hostname, port, pathname, searchParams } = parsed
  const login = {
    ...(username !== '' && { username: decodeURIComponent(username) }),
    ...(password !== '' && { password: decodeURIComponent(password) }),
  }
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

/** Without the URL: it may hold a password. */
function invalid(cause?: unknown): LeaseholdError {
  const forms = 'redis://user:password@host:6379/0, rediss://… or redis+unix:///path/to/redis.sock'
  return new LeaseholdError('INVALID', `This is not the URL of a Redis. Use ${forms}.`, { cause })
}
