import { printable } from '../../core/printable.ts'
import type { Locks } from '../../index.ts'
import { commonOptions, onlyName, type ParsedArguments } from '../arguments.ts'
import type { Command, CommandContext } from '../command.ts'
import { readDeadlocks } from '../inspect/deadlocks.ts'
import { otherNamespaces, readStore } from '../inspect/listing.ts'
import { lockReport, overviewReport } from '../inspect/report.ts'
import { formatHelp, formatOptions, formatDocument, readFormat } from '../output/format.ts'
import { kindHelp, kindOption, readTarget, shownName, type Target } from '../output/lock-name.ts'
import { chooseStore, isUnused, setupHint, storeHelp, withLocks } from '../stores/store.ts'
import { UsageError } from '../exit-codes.ts'

const help = `Usage: leasehold explain [NAME] [options]

Says who holds the lock NAME, since when, who waits for it in which order, and what to do. Without a NAME: who blocks
what in the whole namespace, the worst first: deadlocks, holders that no longer renew, the longest queues.

Options:
${kindHelp}
  -A, --all-namespaces
                      without a NAME: every namespace of the store
${formatHelp}
${storeHelp}

Examples:
  leasehold explain
  leasehold explain nightly
  leasehold explain --kind inode 7
  leasehold explain nightly --json | jq '.holders[0].fence'
`

/** `leasehold explain` */
export const explainCommand: Command = {
  name: 'explain',
  summary: 'say who holds a lock, who waits, and what to do',
  help,
  options: {
    ...commonOptions,
    ...kindOption,
    ...formatOptions,
    'all-namespaces': { type: 'boolean', short: 'A' },
  },
  async run(given, context) {
    const everywhere = given.flags.has('all-namespaces')
    if (given.positionals.length === 0) return overview(given, everywhere, context)
    if (everywhere) throw new UsageError('explain takes a NAME or --all-namespaces, not both.')
    const target = readTarget(given, onlyName(given, 'explain'))
    return withLocks(given, context, {}, (locks) => explainOne(locks, target, given, context))
  },
}

async function explainOne(
  locks: Locks,
  target: Target,
  given: ParsedArguments,
  { look, print, printText }: CommandContext,
): Promise<number> {
  const format = readFormat(given)
  const lock = await locks.inspect(target.scope)
  const key = `${locks.namespace}/${target.scope.key}`
  if (format === 'name') print(`${printable(target.name)}\n`)
  else if (format === 'json' || format === 'yaml') {
    const free = { scope: target.name, key, holders: [], waiters: [], held: 0, waiting: 0 }
    print(formatDocument(format, target, lock ?? free))
  } else {
    // A deadlock has a waiter at each of its locks.
    const isAwaited = lock !== null && lock.waiting > 0
    const read = isAwaited ? await readDeadlocks(() => readStore(locks, { everywhere: false })) : undefined
    const deadlocks = read?.deadlocks.filter((cycle) => cycle.some((step) => step.key === key)) ?? []
    const view = { look, now: new Date(), namespace: locks.namespace }
    printText(lockReport(shownName(target), lock, deadlocks, view))
  }
  return 0
}

/** Who blocks what, since when, and what to do. */
async function overview(given: ParsedArguments, everywhere: boolean, context: CommandContext): Promise<number> {
  const { look, printText, messages, variables } = context
  if (given.texts.has('kind')) throw new UsageError('explain --kind KIND needs a NAME.')
  if (given.texts.has('output') || given.flags.has('json'))
    throw new UsageError('explain needs a NAME for a document. For all locks: leasehold ls --json')
  return withLocks(given, context, {}, async (locks) => {
    const { snapshot, deadlocks } = await readDeadlocks(() => readStore(locks, { everywhere }))
    // The clock of this machine when the store was read: ages count to that moment.
    const view = { look, now: new Date(snapshot.wall || Date.now()), namespace: locks.namespace }
    printText(overviewReport(snapshot, deadlocks, view))
    if (snapshot.keys.length > 0) return 0
    if (isUnused(chooseStore(given, variables).url)) for (const line of setupHint) messages.say(line)
    const others = everywhere ? [] : await otherNamespaces(locks)
    if (others.length > 0)
      messages.say(`other namespaces have locks: ${others.slice(0, 5).join(', ')}. See leasehold explain -A`)
    return 0
  })
}
