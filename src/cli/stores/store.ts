import { existsSync } from 'node:fs'
import { livesInThread, storeFile } from '../../api/stores/connect-driver.ts'
import { redactedUrl } from '../../core/contract/redaction.ts'
import { LeaseholdError, type ConnectOptions, type Locks, type LockInfo } from '../../index.ts'
import type { ParsedArguments } from '../arguments.ts'
import type { CommandContext } from '../command.ts'
import { printable } from '../output/terminal-text.ts'
import { UsageError } from '../exit-codes.ts'
import { parseQuorum, identifyStore, type StoreIdentity } from '../../api/stores/store-url.ts'

/** Which locks a command line is about. */
export interface StoreChoice {
  readonly url: string
  readonly namespace: string
}

export const storeUrlHelp = `  --store URL         where the locks are kept: sqlite:FILE, redis://HOST, redis-cluster://HOST,HOST,
                      postgres://HOST, mongodb://HOST, etcd://HOST, github:OWNER/REPO, http://HOST:PORT …;
                      else $LEASEHOLD_STORE, else a file in your state directory`

export const storeHelp = `${storeUrlHelp}
  --namespace NAME    which locks of the store; else $LEASEHOLD_NAMESPACE, else default`

const defaultUrl = 'sqlite:'

/** The store and namespace that options, else variables, name. */
export function chooseStore(given: ParsedArguments, variables: CommandContext['variables']): StoreChoice {
  const url = given.texts.get('store') ?? (variables['LEASEHOLD_STORE'] || defaultUrl)
  const namespace = given.texts.get('namespace') ?? (variables['LEASEHOLD_NAMESPACE'] || 'default')
  return { url: absolute(url), namespace }
}

/** The same for commands whose locks others are to see. */
export function chooseSharedStore(given: ParsedArguments, variables: CommandContext['variables']): StoreChoice {
  const choice = chooseStore(given, variables)
  if (!livesInThread(choice.url)) return choice
  throw new UsageError(
    `${describeStore(choice.url)} is in the memory of one process: no other command would see its locks. ` +
      'Use a store that others can reach, or leasehold serve.',
  )
}

/** The same file for a command that changes its directory and uses Leasehold itself. */
function absolute(url: string): string {
  const file = url === defaultUrl ? undefined : storeFile(url)
  return file === undefined ? url : `sqlite:${file}`
}

/** Whether nobody has used the store yet that is there for whoever names none. */
export function isUnused(url: string): boolean {
  return url === defaultUrl && isMissing(url)
}

function isMissing(url: string): boolean {
  const file = storeFile(url)
  return file !== undefined && !existsSync(file)
}

/** Throws if a file was named that does not exist: it would be made, and found to be empty. */
export function refuseMissing(url: string): void {
  if (url === defaultUrl || !isMissing(url)) return
  throw new LeaseholdError(
    'UNAVAILABLE',
    `There is no lock file ${storeFile(url)}. Either its name is wrong, or nobody has taken a lock in it yet.`,
  )
}

/**
 * Opens the locks for `work`, which only looks at what is there, and closes them after it. Makes no store: a default one
 * that nobody has used yet is looked at as an empty one.
 */
export async function withLocks<Result>(
  given: ParsedArguments,
  { variables, connect }: CommandContext,
  options: ConnectOptions,
  work: (locks: Locks) => Promise<Result>,
): Promise<Result> {
  const { url, namespace } = chooseSharedStore(given, variables)
  refuseMissing(url)
  const locks = await connect(isUnused(url) ? 'memory:' : url, { ...options, namespace })
  try {
    return await work(locks)
  } finally {
    await locks.close()
  }
}

/** The store for people, without secrets. */
export function describeStore(url: string): string {
  return printable(url === defaultUrl ? `${url}${storeFile(url)}` : redactedUrl(url))
}

const locksPerPage = 500

/** Every lock of the namespace whose name begins with `prefix`, a page at a time. */
export async function* everyLock(locks: Locks, prefix?: string): AsyncIterable<LockInfo> {
  let after: string | undefined
  do {
    const page = await locks.list({
      limit: locksPerPage,
      ...(prefix !== undefined && { prefix }),
      ...(after !== undefined && { after }),
    })
    yield* page.locks
    after = page.next
  } while (after !== undefined)
}

const scheme = 'quorum:'

/** The URLs of the stores that a URL names: one, or those of a quorum. */
export function storesIn(url: string): readonly string[] {
  return url.startsWith(scheme) ? parseQuorum(url.slice(scheme.length)).urls : [url]
}

/** Which store a URL names, or which stores a quorum is of. */
export function identifyStores(url: string): StoreIdentity {
  if (!url.startsWith(scheme)) return identifyStore(url)
  const { urls, options } = parseQuorum(url.slice(scheme.length))
  const nodes = urls.map(identifyStore)
  const isWhole = Object.keys(options).length === 0 && nodes.every((node) => node.isWhole)
  return { url: `${scheme}${nodes.map((node) => node.url).join(',')}`, isWhole }
}
