import { LeaseholdError, type Locks } from '../../index.ts'
import type { ParsedArguments } from '../arguments.ts'
import type { CommandContext } from '../command.ts'
import type { ReadProof } from './proof-file.ts'
import { chooseSharedStore, describeStore, refuseMissing, identifyStores, storesIn } from './store.ts'
import { quoted } from '../output/terminal-text.ts'
import { UsageError } from '../exit-codes.ts'

export const proofStoreHelp = `  --store URL         that of the proof, and needed only if it takes a password or a token; else $LEASEHOLD_STORE
  --namespace NAME    that of the proof`

/** Opens the locks that a proof is of, for `work`, and closes them after it. Throws if other ones are asked for. */
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
 * The URL that is configured if there is one, and it must name the store of the proof; else the one in the proof. What this
 * user's variables and files hold for a store they configured, such as a token, is for no other one.
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

/** Whether whoever opens a store may send it what the user's variables and files hold: a token, a password. */
function takesCredentials(url: string, variables: CommandContext['variables']): boolean {
  return storesIn(url).some((each) => {
    const [scheme = ''] = each.split(':')
    if (scheme === 'http' || scheme === 'https') return Boolean(variables['LEASEHOLD_TOKEN'])
    return !withoutCredentials.has(scheme)
  })
}

/** Stores that are opened with nothing but what their URL says. Others look for a password or a token elsewhere. */
const withoutCredentials = new Set(['sqlite', 'redis', 'rediss', 'redis-cluster', 'rediss-cluster', 'etcd', 'etcds'])

/** Whether the store says that the lock is no longer ours. */
export function isProofSpent(error: unknown): boolean {
  return error instanceof LeaseholdError && error.code === 'NOT_HELD'
}

/** For a proof that does not say which store it is of: who knows whether this is the one that was asked. */
export function notKnownHere(file: string): LeaseholdError {
  const message =
    'This store does not have the lock, or not any more; the proof does not say whether it is the right one. ' +
    `${quoted(file)} is left as it is.`
  return new LeaseholdError('NOT_HELD', message)
}
