import { overlaps } from '../../core/rule/conflict.ts'
import { formatDuration } from '../../core/time/duration.ts'
import type { ClaimInfo, LockInfo, Scope } from '../../index.ts'
import { commonOptions } from '../arguments.ts'
import type { Command } from '../command.ts'
import { everyLock, storeHelp, withLocks } from '../stores/store.ts'
import { clockTime } from '../output/holder-text.ts'
import { lockJson } from '../output/lock-json.ts'
import { lockNameOf } from '../output/lock-name.ts'
import { Table } from '../output/table.ts'
import { printableJson, quoted } from '../output/terminal-text.ts'
import { UsageError } from '../exit-codes.ts'

const help = `Usage: leasehold ls [PREFIX] [options]

Lists what is held and waited for: all locks of the namespace, or those whose names begin with PREFIX. NAME and KIND
are what other commands take as NAME and --kind.

Options:
  --json              one line of JSON for each lock: kind, name, key, held, waiting, holders, waiters
${storeHelp}

Examples:
  leasehold ls
  leasehold ls deploy/
  leasehold ls --json | jq -r 'select(.waiting > 3).name'
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
      const table = new Table(headings)
      let rows: (readonly string[])[] = []
      let lines = 0
      for await (const lock of everyLock(locks, prefix)) {
        if (given.flags.has('json')) context.print(`${printableJson(lockJson(lockNameOf(lock), lock))}\n`)
        else rows.push(...rowsOf(lock, new Date()))
        lines += 1
        if (lines % linesAtOnce > 0) continue
        if (rows.length > 0) context.print(table.format(rows))
        rows = []
        // However many locks there are, no more than these are kept in memory.
        await context.drained()
      }
      if (rows.length > 0) context.print(table.format(rows))
      else if (lines === 0 && !given.flags.has('json')) context.messages.say(nothingFound(prefix, locks.namespace))
      return 0
    })
  },
}

/** Locks that are printed together, in columns of one width. */
const linesAtOnce = 1000

const headings = ['NAME', 'KIND', 'HOLDER', 'HOST', 'PID', 'SINCE', 'LEFT', 'FENCE', 'WAITING']

/** One row for each holder; a lock that has only waiters gets one row. */
function rowsOf({ key, holders, waiters, held, waiting }: LockInfo, now: Date): string[][] {
  const rowWithout = (holder: string, count: string): string[] => {
    return [...nameColumns({ key }), holder, '-', '-', '-', '-', '-', count]
  }
  if (holders.length === 0) return [rowWithout('-', String(waiting))]
  const rows = holders.map((holder) => [
    ...nameColumns({ key, ...(holder.range !== undefined && { range: holder.range }) }),
    holder.runner.id,
    holder.runner.host,
    String(holder.runner.pid),
    clockTime(holder.acquiredAt ?? holder.enteredAt, now),
    holder.expired ? 'expired' : formatDuration(holder.remainingMs),
    String(holder.fence),
    waitingFor(holder, waiters, waiting),
  ])
  if (held > holders.length) rows.push(rowWithout(`and ${held - holders.length} more`, '-'))
  return rows
}

/** How many wait for this holder. Of a range, those that are not shown cannot be counted. */
function waitingFor(holder: ClaimInfo, waiters: readonly ClaimInfo[], waiting: number): string {
  if (holder.range === undefined) return String(waiting)
  // A waiter for other bytes of the inode does not wait for this holder.
  const count = waiters.filter((waiter) => overlaps(waiter, holder)).length
  return waiting > waiters.length ? `${count} or more` : String(count)
}

function nameColumns(scope: Pick<Scope, 'key' | 'range'>): [string, string] {
  const { kind, name } = lockNameOf(scope)
  return [name, kind]
}

function nothingFound(prefix: string | undefined, namespace: string): string {
  const which = prefix === undefined ? '' : ` whose name begins with ${quoted(prefix)}`
  return `nobody holds or waits for a lock${which} in the namespace ${quoted(namespace)}`
}
