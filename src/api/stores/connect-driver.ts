import type { LockDriver } from '../../core/contract/driver.ts'
import { LeaseholdError } from '../../core/errors.ts'
import { redactedUrl } from '../../core/contract/redaction.ts'
import { parseQuorum, checkFile, sqliteFile } from './store-url.ts'

/** On whose behalf a driver makes claims. */
export interface DriverTerms {
  /** The driver makes claims for other processes, as a server does: the end of its own process does not end theirs. */
  readonly forOthers?: boolean
}

/** The driver for a URL, not opened yet. Loads the code of that driver only. */
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
    case 'mysql':
    case 'mariadb': {
      const { mysql } = await import('../../drivers/mysql/driver.ts')
      return mysql(url)
    }
    case 'etcd':
    case 'etcds': {
      const { etcd } = await import('../../drivers/etcd/driver.ts')
      return etcd(url)
    }
    case 'nats':
    case 'natss': {
      const { nats } = await import('../../drivers/nats/driver.ts')
      return nats(url)
    }
    case 'dynamodb': {
      const { dynamodb } = await import('../../drivers/dynamodb/driver.ts')
      return dynamodb(url)
    }
    case 's3': {
      const { s3 } = await import('../../drivers/s3/driver.ts')
      return s3(url)
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
          'postgres-advisory://HOST, mysql://HOST/DB, mongodb://HOST, etcd://HOST,HOST, nats://HOST,HOST, s3://BUCKET, dynamodb://TABLE, github:OWNER/REPO, http(s)://HOST or quorum:URL,URL,URL.',
      )
  }
}

/** Whether the store, or a node of it, is in the memory of this thread: no other thread can renew there. */
export function livesInThread(url: string): boolean {
  const { scheme, rest } = splitUrl(url)
  return scheme === 'memory' || (scheme === 'quorum' && parseQuorum(rest).urls.some((node) => livesInThread(node)))
}

/** The file of a store; undefined for a store that is not a file. */
export function storeFile(url: string): string | undefined {
  const { scheme, rest } = splitUrl(url)
  return scheme === 'sqlite' ? sqliteFile(rest) : undefined
}

/** The parts of a store's URL. */
function splitUrl(url: string): { readonly scheme: string; readonly rest: string } {
  const [, scheme, rest] = (typeof url === 'string' ? /^([a-z][a-z0-9+.-]*):(.*)$/s.exec(url) : null) ?? []
  // A line break mostly comes from a file or a secret. As part of a path or a name it would name another store.
  if (/\p{Cc}|\s$/u.test(rest ?? '')) {
    const fault = 'The URL of the store has a line break in it, or a space at its end'
    throw new LeaseholdError('INVALID', `${fault}. Where it is read from a file, write that with: printf %s "$url"`)
  }
  if (scheme !== undefined && rest !== undefined) return { scheme, rest }
  const shown = typeof url === 'string' ? JSON.stringify(redactedUrl(url)) : String(url)
  throw new LeaseholdError('INVALID', `${shown} is not the URL of a store. Use, say, sqlite:locks.db.`)
}
