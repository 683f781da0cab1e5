import path from 'node:path'
import type { ConnectOptions, Locks } from '../index.ts'
import type { Given } from './arguments.ts'
import type { Surroundings } from './command.ts'

/** Which locks a command line is about. */
export interface StoreChoice {
  readonly url: string
  readonly namespace: string
}

export const storeHelp = `  --store URL         where the locks are kept: sqlite:FILE, redis://HOST, redis-cluster://HOST,HOST,
                      postgres://HOST, mongodb://HOST, github:OWNER/REPO …; else $LEASEHOLD_STORE,
                      else a file in your state directory
  --namespace NAME    which locks of the store; else $LEASEHOLD_NAMESPACE, else default`

/** The store and namespace that options, else variables, name. */
export function chooseStore(given: Given, variables: Surroundings['variables']): StoreChoice {
  const url = given.texts.get('store') ?? (variables['LEASEHOLD_STORE'] || 'sqlite:')
  const namespace = given.texts.get('namespace') ?? (variables['LEASEHOLD_NAMESPACE'] || 'default')
  return { url: absolute(url), namespace }
}

/** The same file for a command that changes its directory and uses Leasehold itself. */
function absolute(url: string): string {
  const scheme = 'sqlite:'
  return url.startsWith(scheme) && url !== scheme ? scheme + path.resolve(url.slice(scheme.length)) : url
}

/** Opens the locks for `work` and closes them after it. */
export async function withLocks<Result>(
  given: Given,
  { variables, connect }: Surroundings,
  options: ConnectOptions,
  work: (locks: Locks) => Promise<Result>,
): Promise<Result> {
  const { url, namespace } = chooseStore(given, variables)
  const locks = await connect(url, { ...options, namespace })
  try {
    return await work(locks)
  } finally {
    await locks.close()
  }
}
