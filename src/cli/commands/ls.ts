import { overlaps } from '../../core/rule/conflict.ts'
import { formatDuration } from '../../core/time/duration.ts'
import type { LockInfo, Scope } from '../../index.ts'
import { commonOptions } from '../arguments.ts'
import type { Command } from '../command.ts'
import { everyLock, storeHelp, withLocks } from '../stores/store.ts'
import { clockTime } from '../output/holder-text.ts'
import { lockJson } from '../output/lock-json.ts'
import { lockNameOf } from '../output/lock-name.ts'
import { formatTable } from '../output/table.ts'
import { printableJson, quoted } from '../output/terminal-text.ts'
import { UsageError } from '../exit-codes.ts'

const help = `Usage: leasehold ls [PREFIX] [options]

Lists what is held and waited for: all locks of the namespace, or those whose names begin with PREFIX. NAME and KIND
are what other commands take as NAME and --kind.

Options:
  --json              one line of JSON for each lock: kind, name, key, holders, waiters
${storeHelp}

Examples:
  leasehold ls
  leasehold ls deploy/
  leasehold ls --json | jq -r 'select(.waiters | length > 3).name'
`

/** `leasehold ls` */
export const lsCommand: Command = {
  name: 'ls',
  summary: 'list the locks that are held or waited for',
  help,
  options: { ...commonOptions, json: { type: 'boolean' } },
  async run(given, context) {
    const [prefix, ...more] = given.positionals
    if (more.length > 0) throw new UsageError(`ls takes one PREFIX; ${quoted(more[0] as string)} is one too many.`)
    return withLocks(given, context, {}, async (locks) => {
      const rows: (readonly string[])[] = []
      for await (const lock of everyLock(locks, prefix)) {
        if (given.flags.has('json')) context.print(`${printableJson(lockJson(lockNameOf(lock), lock))}\n`)
        else rows.push(...rowsOf(lock, new Date()))
      }
      if (rows.length > 0) context.print(formatTable(headings, rows))
      else if (!given.flags.has('json')) context.messages.say(nothingFound(prefix, locks.namespace))
      return 0
    })
  },
}

const headings = ['NAME', 'KIND', 'HOLDER', 'HOST', 'PID', 'SINCE', 'LEFT', 'FENCE', 'WAITING']

/** One row for each holder; a lock that has only waiters gets one row. */
function rowsOf({ key, holders, waiters }: LockInfo, now: Date): string[][] {
  if (holders.length === 0) return [[...nameColumns({ key }), '-', '-', '-', '-', '-', '-', String(waiters.length)]]
  return holders.map((holder) => [
    ...nameColumns({ key, ...(holder.range !== undefined && { range: holder.range }) }),
    holder.runner.id,
    holder.runner.host,
    String(holder.runner.pid),
    clockTime(holder.acquiredAt ?? holder.enteredAt, now),
    holder.expired ? 'expired' : formatDuration(holder.remainingMs),
    String(holder.fence),
    // A waiter for other bytes of the inode does not wait for this holder.
    String(waiters.filter((waiter) => overlaps(waiter, holder)).length),
  ])
}

function nameColumns(scope: Pick<Scope, 'key' | 'range'>): [string, string] {
  const { kind, name } = lockNameOf(scope)
  return [name, kind]
}

function nothingFound(prefix: string | undefined, namespace: string): string {
  const which = prefix === undefined ? '' : ` whose name begins with ${quoted(prefix)}`
  return `nobody holds or waits for a lock${which} in the namespace ${quoted(namespace)}`
}
