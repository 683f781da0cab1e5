import { existsSync } from 'node:fs'
import { livesInThread, storeFile } from '../../api/stores/connect-driver.ts'
import { redactedUrl } from '../../core/contract/redaction.ts'
import { LeaseholdError, type ConnectOptions, type Locks } from '../../index.ts'
import type { ParsedArguments } from '../arguments.ts'
import type { CommandContext } from '../command.ts'
import { printable } from '../../core/printable.ts'
import { UsageError } from '../exit-codes.ts'
import { parseQuorum, identifyStore, type StoreIdentity } from '../../api/stores/store-url.ts'

/** The store and namespace of a command line. */
export interface StoreChoice {
  readonly url: string
  readonly namespace: string
}

/** The help of `--store`. */
export const storeUrlHelp = `  --store URL         where the locks are kept: sqlite:FILE, redis://HOST, redis-cluster://HOST,HOST,
                      postgres://HOST, mysql://HOST/DB, mongodb://HOST, etcd://HOST, nats://HOST,
                      s3://BUCKET,
                      dynamodb://TABLE, github:OWNER/REPO, http://HOST:PORT …;
                      default $LEASEHOLD_STORE, else a file in your state directory`

/** The help of `--color`. */
export const colourHelp =
  '  --color WHEN        auto (default), always or never; the variables NO_COLOR and FORCE_COLOR say the same'

/** The help of `--store`, `--namespace` and `--color`. */
export const storeHelp = `${storeUrlHelp}
  --namespace NAME    which locks of the store; default $LEASEHOLD_NAMESPACE, else "default"
${colourHelp}`

/** What to do where no store is set up and the default one has never been used. */
export const setupHint = [
  'no store is set up: this is a file on this machine, and nobody has taken a lock in it yet',
  'to share locks with other machines: export LEASEHOLD_STORE=redis://HOST, postgres://HOST/DB …, then leasehold doctor',
  'to try it here: leasehold run demo -- sleep 30 & leasehold ls',
] as const

const defaultUrl = 'sqlite:'

/** The store and namespace of the options, else of the environment variables, else the default. */
export function chooseStore(given: ParsedArguments, variables: CommandContext['variables']): StoreChoice {
  const url = given.texts.get('store') ?? (variables['LEASEHOLD_STORE'] || defaultUrl)
  const namespace = given.texts.get('namespace') ?? (variables['LEASEHOLD_NAMESPACE'] || 'default')
  return { url: absolute(url), namespace }
}

/** As {@link chooseStore}, but refuses a store that no other process can see. */
export function chooseSharedStore(given: ParsedArguments, variables: CommandContext['variables']): StoreChoice {
  const choice = chooseStore(given, variables)
  if (!livesInThread(choice.url)) return choice
  throw new UsageError(
    `${describeStore(choice.url)} is in the memory of one process: no other command would see its locks. ` +
      'Use a store that others can reach, or leasehold serve.',
  )
}

/** Makes a file path absolute, so that it names the same file if the command changes its directory. */
function absolute(url: string): string {
  const file = url === defaultUrl ? undefined : storeFile(url)
  return file === undefined ? url : `sqlite:${file}`
}

/** Whether the URL is that of the default store and its file does not exist yet. */
export function isUnused(url: string): boolean {
  return url === defaultUrl && isMissing(url)
}

function isMissing(url: string): boolean {
  const file = storeFile(url)
  return file !== undefined && !existsSync(file)
}

/** Throws if the URL names a file that does not exist: opening it would create an empty store. */
export function refuseMissing(url: string): void {
  if (url === defaultUrl || !isMissing(url)) return
  throw new LeaseholdError(
    'UNAVAILABLE',
    `There is no lock file ${storeFile(url)}. Either its name is wrong, or nobody has taken a lock in it yet.`,
  )
}

/**
 * Opens the store for `work`, which creates no locks, and closes it afterwards. Creates no store: a default store without a
 * file is read as an empty one.
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

/** The URL of the store without its secrets, to show to users. */
export function describeStore(url: string): string {
  return printable(url === defaultUrl ? `${url}${storeFile(url)}` : redactedUrl(url))
}

const scheme = 'quorum:'

/** The URL itself, or the URLs of the nodes of a quorum. */
export function storesIn(url: string): readonly string[] {
  return url.startsWith(scheme) ? parseQuorum(url.slice(scheme.length)).urls : [url]
}

/** The identity of a store, or of all nodes of a quorum. */
export function identifyStores(url: string): StoreIdentity {
  if (!url.startsWith(scheme)) return identifyStore(url)
  const { urls, options } = parseQuorum(url.slice(scheme.length))
  const nodes = urls.map(identifyStore)
  const isWhole = Object.keys(options).length === 0 && nodes.every((node) => node.isWhole)
  return { url: `${scheme}${nodes.map((node) => node.url).join(',')}`, isWhole }
}
