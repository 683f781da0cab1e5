import type { LockDriver } from '../../core/contract/driver.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { redactedUrl } from '../../core/contract/redaction.ts'
import { parseQuorum, checkFile, sqliteFile } from './store-url.ts'

/** For whom a driver is. */
export interface DriverTerms {
  /** It makes claims for other processes, as a server does: its own end says nothing about theirs. */
  readonly forOthers?: boolean
}

/** The driver for a URL, not opened yet. A driver's code is loaded only when it is asked for. */
export async function driverFor(url: string, terms: DriverTerms = {}): Promise<LockDriver> {
  const { scheme, rest } = splitUrl(url)
  switch (scheme) {
    case 'memory': {
      const { memory } = await import('../../drivers/memory/driver.ts')
      return memory(rest === '' ? {} : { name: rest })
    }
    case 'sqlite': {
      const { sqlite } = await import('../../drivers/sqlite/driver.ts')
      return sqlite({ ...(rest !== '' && { file: checkFile(rest) }), ...terms })
    }
    case 'postgres':
    case 'postgresql': {
      const { postgres } = await import('../../drivers/postgres/driver.ts')
      return postgres(url)
    }
    case 'postgres-advisory': {
      const { postgresAdvisory } = await import('../../drivers/postgres-advisory/driver.ts')
      return postgresAdvisory(`postgres:${rest}`)
    }
    case 'redis':
    case 'rediss':
    case 'redis-cluster':
    case 'rediss-cluster':
    case 'redis+unix':
    case 'unix': {
      const { redis } = await import('../../drivers/redis/driver.ts')
      return redis(url)
    }
    case 'mongodb':
    case 'mongodb+srv': {
      const { mongodb } = await import('../../drivers/mongodb/driver.ts')
      return mongodb(url)
    }
    case 'etcd':
    case 'etcds': {
      const { etcd } = await import('../../drivers/etcd/driver.ts')
      return etcd(url)
    }
    case 'github': {
      const { githubUrl } = await import('../../drivers/github/driver.ts')
      return githubUrl(rest)
    }
    case 'http':
    case 'https': {
      const { http } = await import('../../drivers/http/driver.ts')
      return http(url)
    }
    case 'quorum': {
      const { quorum } = await import('../../drivers/quorum/driver.ts')
      const { urls, options } = parseQuorum(rest)
      return quorum(await Promise.all(urls.map((node) => driverFor(node, terms))), options)
    }
    default:
      throw new LeaseholdError(
        'INVALID',
        `There is no store for '${scheme}:'. ` +
          'Use memory:, sqlite:FILE, redis://HOST, redis-cluster://HOST,HOST, postgres://HOST, ' +
          'postgres-advisory://HOST, mongodb://HOST, etcd://HOST,HOST, github:OWNER/REPO, http(s)://HOST or quorum:URL,URL,URL.',
      )
  }
}

/** Whether all of a store lives in this thread, where no other can renew. */
export function livesInThread(url: string): boolean {
  const { scheme, rest } = splitUrl(url)
  return scheme === 'memory' || (scheme === 'quorum' && parseQuorum(rest).urls.some((node) => livesInThread(node)))
}

/** The file that a store is kept in; undefined for a store that is elsewhere. */
export function storeFile(url: string): string | undefined {
  const { scheme, rest } = splitUrl(url)
  return scheme === 'sqlite' ? sqliteFile(rest) : undefined
}

/** The parts of a store's URL. */
function splitUrl(url: string): { readonly scheme: string; readonly rest: string } {
  const [, scheme, rest] = (typeof url === 'string' ? /^([a-z][a-z0-9+.-]*):(.*)$/s.exec(url) : null) ?? []
  // Out of a file or a secret, mostly. As part of a path or a name it would lead to another store than the same URL without it.
  if (/\p{Cc}|\s$/u.test(rest ?? '')) {
    const what = 'The URL of the store has a line break in it, or a space at its end'
    throw new LeaseholdError('INVALID', `${what}. Where it is read from a file, write that with: printf %s "$url"`)
  }
  if (scheme !== undefined && rest !== undefined) return { scheme, rest }
  const shown = typeof url === 'string' ? JSON.stringify(redactedUrl(url)) : String(url)
  throw new LeaseholdError('INVALID', `${shown} is not the URL of a store. Use, say, sqlite:locks.db.`)
}
