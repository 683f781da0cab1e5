import type { Locks, LockInfo } from '../../index.ts'
import { choiceOption, commonOptions, onlyName } from '../arguments.ts'
import type { Command } from '../command.ts'
import { changed } from '../inspect/changes.ts'
import { pollEveryMs, sayAway } from '../inspect/listing-watch.ts'
import { everyLock, type Selection } from '../inspect/listing.ts'
import { sortWords } from '../inspect/lock-rows.ts'
import { pollStore } from '../inspect/store-poll.ts'
import { storeHelp } from '../stores/store.ts'
import { UsageError } from '../exit-codes.ts'
import { clockTime, runnerText } from '../output/holder-text.ts'
import { formatDocument } from '../output/format.ts'
import {
  kindHelp,
  kindOption,
  lockNameOf,
  readTarget,
  shownName,
  type LockName,
  type Target,
} from '../output/lock-name.ts'
import { watchScreen } from '../screen/live-view.ts'

const help = `Usage: leasehold watch [NAME] [options]

Shows who holds a lock, or every lock of the namespace, and how many wait, now and whenever that changes, until
interrupted. On a terminal it is a live view of the whole screen, otherwise a log with a line for each change. Polls
once a second: shorter changes are not shown. If the store was reached once and fails later, watch keeps trying.

Options:
${kindHelp}
  --all               every lock of the namespace: the same as without a NAME
  -A, --all-namespaces
                      every lock of every namespace of the store
  --sort COLUMN       of the live view: waiting (default), age, name or service
  --log               a line for each change, on a terminal too
  --json              a log with one line of JSON for each change: kind, name, key, held, waiting, holders, waiters
${storeHelp}

Keys of the live view:
  q                   quit, as Ctrl-C does; Ctrl-Z suspends
  j k, arrows, Page Up, Page Down, g G
                      move through the list
  Enter               the selected lock: its holders, its queue, and what to do; Escape goes back
  s                   sort by waiters, age, name or service
  /                   only names with these letters

Examples:
  leasehold watch
  leasehold watch nightly
  leasehold watch -A --sort age
  leasehold watch --json
`

/** `leasehold watch` */
export const watchCommand: Command = {
  name: 'watch',
  summary: 'show locks live, or log their changes',
  help,
  options: {
    ...commonOptions,
    ...kindOption,
    all: { type: 'boolean' },
    'all-namespaces': { type: 'boolean', short: 'A' },
    sort: { type: 'string', choices: sortWords },
    log: { type: 'boolean' },
    json: { type: 'boolean' },
  },
  async run(given, context) {
    const everywhere = given.flags.has('all-namespaces')
    const isAll = given.flags.has('all') || everywhere || given.positionals.length === 0
    if (isAll && given.positionals.length > 0) throw new UsageError('watch takes a NAME or --all, not both.')
    if (isAll && given.texts.has('kind')) throw new UsageError('watch of all locks shows every kind.')
    const target = isAll ? undefined : readTarget(given, onlyName(given, 'watch'))
    const sort = choiceOption(given, 'sort', sortWords) ?? 'waiting'
    const selection: Selection = { everywhere }
    const isLog = given.flags.has('log') || given.flags.has('json')
    if (!isLog && context.terminal?.takesKeys === true) return watchScreen({ selection, target, sort }, given, context)
    const show = given.flags.has('json') ? showDocument : showState
    let before: ReadonlyMap<string, LockInfo> = new Map()
    return pollStore(given, context, {
      everyMs: pollEveryMs,
      read: (locks) => readLocks(locks, target, selection),
      show: (after) => {
        for (const lock of changed(before, after)) context.print(show(target ?? lockNameOf(lock), lock))
        before = after
      },
      away: (why) => sayAway(why, context),
    })
  },
}

/** The target, or every selected lock, by key. */
async function readLocks(
  locks: Locks,
  target: Target | undefined,
  selection: Selection,
): Promise<Map<string, LockInfo>> {
  const found = new Map<string, LockInfo>()
  if (target === undefined) for await (const lock of everyLock(locks, selection)) found.set(lock.key, lock)
  else {
    const key = `${locks.namespace}/${target.scope.key}`
    found.set(
      key,
      (await locks.inspect(target.scope)) ?? { scope: target.name, key, holders: [], waiters: [], held: 0, waiting: 0 },
    )
  }
  return found
}

function showState(called: LockName, { holders, held: heldBy, waiting: waitedFor }: LockInfo): string {
  const now = new Date()
  const held = holders.map(({ runner, fence, range }) => {
    const which = range === undefined ? '' : `, bytes ${range.start} to ${range.end},`
    return `held by ${runnerText(runner)}${which} with fence ${fence}`
  })
  if (heldBy > holders.length) held.push(`and by ${heldBy - holders.length} more`)
  const waiting = waitedFor === 0 ? [] : [`${waitedFor} waiting`]
  return `${clockTime(now, now)} ${shownName(called)}: ${[...held, ...waiting].join(', ') || 'free'}\n`
}

function showDocument(called: LockName, lock: LockInfo): string {
  return formatDocument('json', called, lock)
}
