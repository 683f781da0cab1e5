import { formatDuration } from '../core/duration.ts'
import type { LockInfo } from '../index.ts'
import { commonOptions } from './arguments.ts'
import type { Command } from './command.ts'
import { everyLock } from './every-lock.ts'
import { clockTime } from './holder-text.ts'
import { lockDocument } from './lock-document.ts'
import { storeHelp, withLocks } from './store.ts'
import { formatTable } from './table.ts'
import { printable, printableJson, quoted } from './terminal-text.ts'
import { UsageError } from './usage-error.ts'

const help = `Usage: leasehold ls [PREFIX] [options]

Lists what is held and waited for: all locks of the namespace, or those whose names begin with PREFIX.

Options:
  --json              one JSON document a line and lock: name, key, holders, waiters
${storeHelp}

Examples:
  leasehold ls
  leasehold ls deploy/
  leasehold ls --json | jq -r 'select(.waiters | length > 3).name'
`

export const ls: Command = {
  name: 'ls',
  summary: 'list the locks that are held or waited for',
  help,
  options: { ...commonOptions, json: { type: 'boolean' } },
  async run(given, surroundings) {
    const [prefix, ...more] = given.positionals
    if (more.length > 0) throw new UsageError(`ls takes one PREFIX; ${quoted(more[0] as string)} is one too many.`)
    return withLocks(given, surroundings, {}, async (locks) => {
      const rows: (readonly string[])[] = []
      for await (const lock of everyLock(locks, prefix)) {
        if (given.flags.has('json')) surroundings.print(`${printableJson(lockDocument(lock))}\n`)
        else rows.push(...rowsOf(lock, new Date()))
      }
      if (rows.length > 0) surroundings.print(formatTable(headings, rows))
      else if (!given.flags.has('json')) surroundings.messages.say(nothingFound(prefix, locks.namespace))
      return 0
    })
  },
}

const headings = ['NAME', 'HOLDER', 'HOST', 'PID', 'SINCE', 'LEFT', 'FENCE', 'WAITING']

/** A row a holder; a lock that is only waited for has one too. */
function rowsOf({ scope, holders, waiters }: LockInfo, now: Date): string[][] {
  const name = printable(scope)
  const waiting = String(waiters.length)
  if (holders.length === 0) return [[name, '-', '-', '-', '-', '-', '-', waiting]]
  return holders.map(({ runner, acquiredAt, enteredAt, remainingMs, expired, fence }) => [
    name,
    printable(runner.id),
    printable(runner.host),
    printable(String(runner.pid)),
    clockTime(acquiredAt ?? enteredAt, now),
    expired ? 'expired' : formatDuration(remainingMs),
    String(fence),
    waiting,
  ])
}

function nothingFound(prefix: string | undefined, namespace: string): string {
  const which = prefix === undefined ? '' : ` whose name begins with ${quoted(prefix)}`
  return `nobody holds or waits for a lock${which} in the namespace ${quoted(namespace)}`
}
