import { setTimeout as pause } from 'node:timers/promises'
import { named, type Locks, type LockInfo } from '../index.ts'
import { commonOptions, onlyName } from './arguments.ts'
import type { Command } from './command.ts'
import { everyLock } from './every-lock.ts'
import { signalExitCode } from './exit-codes.ts'
import { clockTime, describeRunner } from './holder-text.ts'
import { Interruption } from './interruption.ts'
import { lockDocument } from './lock-document.ts'
import { storeHelp, withLocks } from './store.ts'
import { printable, printableJson } from './terminal-text.ts'
import { UsageError } from './usage-error.ts'

const lookEveryMs = 1000

const help = `Usage: leasehold watch NAME [options]
       leasehold watch --all [options]

Shows who holds a lock and how many wait, now and whenever that changes, until interrupted. It looks once a second: what
came and went in between is not shown.

Options:
  --all               every lock of the namespace
  --json              one JSON document a change: name, key, holders, waiters
${storeHelp}

Examples:
  leasehold watch nightly
  leasehold watch --all --json
`

export const watch: Command = {
  name: 'watch',
  summary: 'show changes of a lock, or of all',
  help,
  options: { ...commonOptions, all: { type: 'boolean' }, json: { type: 'boolean' } },
  async run(given, surroundings) {
    const isAll = given.flags.has('all')
    if (isAll && given.positionals.length > 0) throw new UsageError('watch takes a NAME or --all, not both.')
    const name = isAll ? undefined : onlyName(given, 'watch')
    const show = given.flags.has('json') ? showDocument : showState
    const interruption = new Interruption()
    try {
      return await withLocks(given, surroundings, {}, async (locks) => {
        let before: ReadonlyMap<string, LockInfo> = new Map()
        while (interruption.by === undefined) {
          const after = await look(locks, name)
          for (const lock of changed(before, after)) surroundings.print(`${show(lock)}\n`)
          before = after
          await pause(lookEveryMs, undefined, { signal: interruption.signal }).catch(() => {})
        }
        return signalExitCode(interruption.by)
      })
    } finally {
      interruption[Symbol.dispose]()
    }
  },
}

/** The lock called `name`, or all there are, by their keys. */
async function look(locks: Locks, name: string | undefined): Promise<Map<string, LockInfo>> {
  const found = new Map<string, LockInfo>()
  if (name === undefined) for await (const lock of everyLock(locks)) found.set(lock.key, lock)
  else {
    const key = `${locks.namespace}/${named(name).key}`
    found.set(key, (await locks.inspect(name)) ?? { scope: name, key, holders: [], waiters: [] })
  }
  return found
}

/** Locks with other holders, or another number of waiters, than before. One that is gone is free. */
export function changed(before: ReadonlyMap<string, LockInfo>, after: ReadonlyMap<string, LockInfo>): LockInfo[] {
  const other = [...after].filter(([key, lock]) => stateOf(lock) !== stateOf(before.get(key)))
  const gone = [...before].filter(([key]) => !after.has(key))
  return [...gone.map(([, lock]) => ({ ...lock, holders: [], waiters: [] })), ...other.map(([, lock]) => lock)]
}

function stateOf(lock: LockInfo | undefined): string | undefined {
  return lock && JSON.stringify([lock.holders.map(({ fence }) => fence), lock.waiters.length])
}

function showState({ scope, holders, waiters }: LockInfo): string {
  const now = new Date()
  const held = holders.map(({ runner, fence }) => `held by ${describeRunner(runner)} with fence ${fence}`)
  const waiting = waiters.length === 0 ? [] : [`${waiters.length} waiting`]
  return `${clockTime(now, now)} ${printable(scope)}: ${[...held, ...waiting].join(', ') || 'free'}`
}

function showDocument(lock: LockInfo): string {
  return printableJson(lockDocument(lock))
}
