import { setTimeout as pause } from 'node:timers/promises'
import { plainMessageOf, worthRetrying } from '../../core/errors.ts'
import type { Locks, LockInfo } from '../../index.ts'
import { commonOptions, onlyName } from '../arguments.ts'
import type { Command, CommandContext } from '../command.ts'
import { everyLock, chooseSharedStore, isUnused, storeHelp, withLocks } from '../stores/store.ts'
import { signalExitCode, UsageError } from '../exit-codes.ts'
import { clockTime, runnerText } from '../output/holder-text.ts'
import { Interruption } from '../interruption.ts'
import { lockJson } from '../output/lock-json.ts'
import {
  kindHelp,
  kindOption,
  lockNameOf,
  readTarget,
  shownName,
  type LockName,
  type Target,
} from '../output/lock-name.ts'
import { printableJson } from '../output/terminal-text.ts'

const pollEveryMs = 1000

const help = `Usage: leasehold watch NAME [options]
       leasehold watch --all [options]

Shows who holds a lock and how many wait, now and whenever that changes, until interrupted. Polls once a second: shorter
changes are not shown. If the store was reached once and fails later, watch keeps trying.

Options:
${kindHelp}
  --all               every lock of the namespace
  --json              one line of JSON for each change: kind, name, key, held, waiting, holders, waiters
${storeHelp}

Examples:
  leasehold watch nightly
  leasehold watch --all --json
`

/** `leasehold watch` */
export const watchCommand: Command = {
  name: 'watch',
  summary: 'show changes of a lock, or of all',
  help,
  options: { ...commonOptions, ...kindOption, all: { type: 'boolean' }, json: { type: 'boolean' } },
  async run(given, context) {
    const isAll = given.flags.has('all')
    if (isAll && given.positionals.length > 0) throw new UsageError('watch takes a NAME or --all, not both.')
    if (isAll && given.texts.has('kind')) throw new UsageError('watch --all shows locks of every kind.')
    if (!isAll && given.positionals.length === 0) throw new UsageError('watch needs the NAME of a lock, or --all.')
    const target = isAll ? undefined : readTarget(given, onlyName(given, 'watch'))
    const show = given.flags.has('json') ? showDocument : showState
    const { url } = chooseSharedStore(given, context.variables)
    const interruption = new Interruption()
    const connect: CommandContext['connect'] = (...where) => interruption.during(context.connect(...where))
    const readLocksAgain = retryingReader(target, interruption, context)
    let before: ReadonlyMap<string, LockInfo> = new Map()
    try {
      while (interruption.by === undefined) {
        // The default store has no file before its first use. Once somebody creates the file, open it.
        const wasUnused = isUnused(url)
        await withLocks(given, { ...context, connect }, {}, async (locks) => {
          while (interruption.by === undefined && isUnused(url) === wasUnused) {
            const after = (await readLocksAgain(locks)) ?? before
            for (const lock of changed(before, after)) context.print(`${show(target ?? lockNameOf(lock), lock)}\n`)
            before = after
            await pause(pollEveryMs, undefined, { signal: interruption.signal }).catch(() => {})
          }
        })
      }
      return signalExitCode(interruption.by)
    } catch (error) {
      if (interruption.by === undefined) throw error
      return signalExitCode(interruption.by)
    } finally {
      interruption[Symbol.dispose]()
    }
  },
}

/** Reads the locks. If a store that has answered before fails, says so once and resolves to undefined. */
function retryingReader(
  target: Target | undefined,
  interruption: Interruption,
  { messages }: CommandContext,
): (locks: Locks) => Promise<Map<string, LockInfo> | undefined> {
  let state: 'new' | 'there' | 'away' = 'new'
  return async (locks) => {
    try {
      const found = await interruption.during(readLocks(locks, target))
      if (state === 'away') messages.say('the store answers again')
      state = 'there'
      return found
    } catch (error) {
      if (interruption.by !== undefined || state === 'new' || !worthRetrying(error)) throw error
      if (state === 'there') messages.say(`${plainMessageOf(error)} Trying again every second.`)
      state = 'away'
      return undefined
    }
  }
}

/** The target, or every lock of the namespace, by key. */
async function readLocks(locks: Locks, target: Target | undefined): Promise<Map<string, LockInfo>> {
  const found = new Map<string, LockInfo>()
  if (target === undefined) for await (const lock of everyLock(locks)) found.set(lock.key, lock)
  else {
    const key = `${locks.namespace}/${target.scope.key}`
    found.set(
      key,
      (await locks.inspect(target.scope)) ?? { scope: target.name, key, holders: [], waiters: [], held: 0, waiting: 0 },
    )
  }
  return found
}

/** Locks whose holders or number of waiters changed. A lock that disappeared is reported as free. */
export function changed(before: ReadonlyMap<string, LockInfo>, after: ReadonlyMap<string, LockInfo>): LockInfo[] {
  const altered = [...after].filter(([key, lock]) => stateOf(lock) !== stateOf(before.get(key)))
  const gone = [...before].filter(([key]) => !after.has(key))
  return [
    ...gone.map(([, lock]) => ({ ...lock, holders: [], waiters: [], held: 0, waiting: 0 })),
    ...altered.map(([, lock]) => lock),
  ]
}

function stateOf(lock: LockInfo | undefined): string | undefined {
  return lock && JSON.stringify([lock.holders.map(({ fence }) => fence), lock.held, lock.waiting])
}

function showState(called: LockName, { holders, held: heldBy, waiting: waitedFor }: LockInfo): string {
  const now = new Date()
  const held = holders.map(({ runner, fence, range }) => {
    const which = range === undefined ? '' : `, bytes ${range.start} to ${range.end},`
    return `held by ${runnerText(runner)}${which} with fence ${fence}`
  })
  if (heldBy > holders.length) held.push(`and by ${heldBy - holders.length} more`)
  const waiting = waitedFor === 0 ? [] : [`${waitedFor} waiting`]
  return `${clockTime(now, now)} ${shownName(called)}: ${[...held, ...waiting].join(', ') || 'free'}`
}

function showDocument(called: LockName, lock: LockInfo): string {
  return printableJson(lockJson(called, lock))
}
