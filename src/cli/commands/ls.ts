import { printable } from '../../core/printable.ts'
import type { Locks } from '../../index.ts'
import { choiceOption, commonOptions, type ParsedArguments } from '../arguments.ts'
import type { Command, CommandContext } from '../command.ts'
import { everyLock, otherNamespaces, type ListedLock, type Selection } from '../inspect/listing.ts'
import {
  cellsOf,
  compareRows,
  droppableHeadings,
  headingsOf,
  rowsOf,
  rowsView,
  sortWords,
  type InspectedLock,
} from '../inspect/lock-rows.ts'
import { watchListing } from '../inspect/listing-watch.ts'
import { chooseStore, isUnused, setupHint, storeHelp, withLocks } from '../stores/store.ts'
import { formatHelp, formatOptions, formatDocument, readFormat } from '../output/format.ts'
import { lockNameOf } from '../output/lock-name.ts'
import { Table } from '../output/table.ts'
import { quoted } from '../output/terminal-text.ts'
import { UsageError } from '../exit-codes.ts'

const help = `Usage: leasehold ls [PREFIX] [options]

Lists what is held and waited for: all locks of the namespace, or those whose names begin with PREFIX. NAME and KIND
are what other commands take as NAME and --kind. On a terminal, columns are cut to its width.

Options:
${formatHelp}
  --sort COLUMN       name (default), age, waiting or service
  -A, --all-namespaces
                      the locks of every namespace of the store
  --watch             go on: a row for each lock whose holders or number of waiters change, until interrupted
${storeHelp}

Examples:
  leasehold ls
  leasehold ls deploy/ --sort waiting
  leasehold ls -A -o wide
  leasehold ls -o json | jq -r 'select(.waiting > 3).name'
  leasehold ls -o name | xargs -n 1 leasehold explain
`

/** `leasehold ls` */
export const lsCommand: Command = {
  name: 'ls',
  summary: 'list the locks that are held or waited for',
  help,
  options: {
    ...commonOptions,
    ...formatOptions,
    sort: { type: 'string', choices: sortWords },
    'all-namespaces': { type: 'boolean', short: 'A' },
    watch: { type: 'boolean' },
  },
  async run(given, context) {
    const [prefix, ...more] = given.positionals
    if (more.length > 0) throw new UsageError(`ls takes one PREFIX; ${quoted(more[0] as string)} is one too many.`)
    const everywhere = given.flags.has('all-namespaces')
    if (everywhere && prefix !== undefined)
      throw new UsageError('ls takes a PREFIX or --all-namespaces, not both: names begin after their namespace.')
    if (everywhere && given.texts.has('namespace'))
      throw new UsageError('ls takes --namespace or --all-namespaces, not both.')
    const selection: Selection = { everywhere, prefix }
    const listing = listingOf(given, selection, context)
    if (given.flags.has('watch')) return watchListing(selection, listing.print, given, context)
    return withLocks(given, context, {}, async (locks) => {
      let count = 0
      for await (const lock of everyLock(locks, selection)) {
        listing.add(lock)
        count += 1
        // However many locks there are, no more than these are kept in memory.
        if (count % locksAtOnce === 0) await listing.flush()
        else if (!listing.isSorted && count % linesAtOnce === 0) await context.drained()
      }
      if (count > locksAtOnce && listing.isSorted)
        context.messages.say(`more than ${locksAtOnce} locks: sorted in parts of as many`)
      await listing.flush()
      if (count === 0 && listing.isTable) await sayNothingFound(locks, selection, given, context)
      return 0
    })
  },
}

/** Locks that are sorted together and printed in columns of one width. */
const locksAtOnce = 10_000
/** Lines that are printed before the reader must have taken them. */
const linesAtOnce = 1000

/** Formats locks as the options say, a part of them at a time. */
function listingOf(given: ParsedArguments, { everywhere }: Selection, context: CommandContext) {
  const format = readFormat(given)
  const sort = choiceOption(given, 'sort', sortWords) ?? 'name'
  const isTable = format === 'table' || format === 'wide'
  const view = rowsView(context.look, { namespaces: everywhere, wide: format === 'wide' })
  const table = new Table(headingsOf(view), context.look.columns, droppableHeadings)
  const compare = compareRows(sort)
  let rows: InspectedLock[] = []
  const add = (lock: ListedLock): void => {
    const now = new Date()
    if (isTable) rows.push(...rowsOf(lock, now))
    else if (format === 'name') rows.push(...rowsOf(lock, now).slice(0, 1))
    else context.print(formatDocument(format, lockNameOf(lock), lock))
  }
  const flush = async (): Promise<void> => {
    if (rows.length === 0) return
    const sorted = rows.toSorted(compare)
    rows = []
    const lines = isTable ? table.lines(sorted.map((row) => cellsOf(row, view, new Date()))) : []
    for (let from = 0; from < Math.max(lines.length, sorted.length); from += linesAtOnce) {
      if (isTable) context.printLines(lines.slice(from, from + linesAtOnce))
      else
        context.print(
          sorted
            .slice(from, from + linesAtOnce)
            .map(({ name }) => `${printable(name)}\n`)
            .join(''),
        )
      await context.drained()
    }
  }
  /** Prints locks that changed. */
  const print = async (locks: readonly ListedLock[]): Promise<void> => {
    for (const lock of locks) add(lock)
    await flush()
  }
  return { add, flush, print, isTable, isSorted: isTable || format === 'name' }
}

async function sayNothingFound(
  locks: Locks,
  { prefix, everywhere }: Selection,
  given: ParsedArguments,
  { messages, variables }: CommandContext,
): Promise<void> {
  const which = prefix === undefined ? '' : ` whose name begins with ${quoted(prefix)}`
  const where = everywhere ? 'in any namespace' : `in the namespace ${quoted(locks.namespace)}`
  messages.say(`nobody holds or waits for a lock${which} ${where}`)
  if (isUnused(chooseStore(given, variables).url)) for (const line of setupHint) messages.say(line)
  const others = everywhere ? [] : await otherNamespaces(locks)
  if (others.length > 0) messages.say(`other namespaces have locks: ${namesOf(others)}. See leasehold ls -A`)
}

const namespacesShownMax = 5

function namesOf(namespaces: readonly string[]): string {
  const more = namespaces.length - namespacesShownMax
  return namespaces.slice(0, namespacesShownMax).join(', ') + (more > 0 ? ` and ${more} more` : '')
}
