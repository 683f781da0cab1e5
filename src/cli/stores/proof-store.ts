import { LeaseholdError, type Locks } from '../../index.ts'
import type { ParsedArguments } from '../arguments.ts'
import type { CommandContext } from '../command.ts'
import type { ReadProof } from './proof-file.ts'
import { chooseSharedStore, colourHelp, describeStore, refuseMissing, identifyStores, storesIn } from './store.ts'
import { quoted } from '../output/terminal-text.ts'
import { UsageError } from '../exit-codes.ts'

/** The help of the store options of `renew` and `release`. */
export const proofStoreHelp = `  --store URL         the store of the proof; needed only for its password or token; default $LEASEHOLD_STORE
  --namespace NAME    the namespace of the proof
${colourHelp}`

/** Opens the store of a proof for `work`, and closes it afterwards. Throws if options name another store or namespace. */
export async function withLocksOf<Result>(
  read: ReadProof,
  given: ParsedArguments,
  { variables, connect }: CommandContext,
  work: (locks: Locks) => Promise<Result>,
): Promise<Result> {
  const { namespace } = read
  const asked = given.texts.get('namespace')
  if (asked !== undefined && asked !== namespace) {
    throw new UsageError(`The proof is of a lock in the namespace ${quoted(namespace)}, not ${quoted(asked)}.`)
  }
  const url = storeUrlOf(read, given, variables)
  refuseMissing(url)
  const locks = await connect(url, { namespace })
  try {
    return await work(locks)
  } finally {
    await locks.close()
  }
}

/**
 * The configured URL, which must name the store of the proof; without one, the URL in the proof. Credentials in this user's
 * variables and files are never sent to a store that only the proof names.
 */
function storeUrlOf({ store }: ReadProof, given: ParsedArguments, variables: CommandContext['variables']): string {
  const { url } = chooseSharedStore(given, variables)
  if (store === undefined || identifyStores(url).url === store.url) return url
  const its = describeStore(store.url)
  if (given.texts.has('store') || variables['LEASEHOLD_STORE']) {
    const by = given.texts.has('store') ? '--store' : 'LEASEHOLD_STORE'
    throw new UsageError(
      `The proof is of a lock in ${its}, not in ${describeStore(url)}, which ${by} names. ` +
        'Name the store as acquire did; if it now has another name, write that into the file.',
    )
  }
  if (!store.isWhole) {
    throw new UsageError(
      `The proof is of a lock in ${its}. Its URL said more, such as a password, and that is not in the file: ` +
        'give the whole URL by LEASEHOLD_STORE or --store.',
    )
  }
  if (!takesCredentials(store.url, variables)) return store.url
  throw new UsageError(
    `The proof is of a lock in ${its}, where your credentials would be sent. ` +
      'Only a store that you name gets them: give it by LEASEHOLD_STORE or --store.',
  )
}

/** Whether opening a store may send it credentials from the user's variables or files. */
function takesCredentials(url: string, variables: CommandContext['variables']): boolean {
  return storesIn(url).some((each) => {
    const [scheme = ''] = each.split(':')
    if (scheme === 'http' || scheme === 'https') return Boolean(variables['LEASEHOLD_TOKEN'])
    return !withoutCredentials.has(scheme)
  })
}

/** Schemes of stores that take credentials from their URL only, not from variables or files. */
const withoutCredentials = new Set([
  'sqlite',
  'redis',
  'rediss',
  'redis-cluster',
  'rediss-cluster',
  'etcd',
  'etcds',
  'nats',
  'natss',
])

/** Whether an error says that the proof no longer holds its lock. */
export function isProofSpent(error: unknown): boolean {
  return error instanceof LeaseholdError && error.code === 'NOT_HELD'
}

/** The error for a proof without a store: the lock is not in this store, which may be the wrong one. */
export function notKnownHere(file: string): LeaseholdError {
  const message =
    'This store does not have the lock (any more), and the proof does not say whether this is the right store. ' +
    `${quoted(file)} is kept.`
  return new LeaseholdError('NOT_HELD', message)
}
