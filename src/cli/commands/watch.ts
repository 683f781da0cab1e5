import { setTimeout as pause } from 'node:timers/promises'
import { plainMessageOf, worthRetrying } from '../../core/errors.ts'
import type { Locks, LockInfo } from '../../index.ts'
import { commonOptions, onlyName } from '../arguments.ts'
import type { Command, CommandContext } from '../command.ts'
import { everyLock, chooseSharedStore, isUnused, storeHelp, withLocks } from '../stores/store.ts'
import { signalExitCode, UsageError } from '../exit-codes.ts'
import { clockTime, runnerText } from '../output/holder-text.ts'
import { Interruption } from '../interruption.ts'
import { lockDocument } from '../output/lock-document.ts'
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

const lookEveryMs = 1000

const help = `Usage: leasehold watch NAME [options]
       leasehold watch --all [options]

Shows who holds a lock and how many wait, now and whenever that changes, until interrupted. It looks once a second: what
came and went in between is not shown. A store that has answered and then cannot be reached is asked again.

Options:
${kindHelp}
  --all               every lock of the namespace
  --json              one JSON document a change: kind, name, key, holders, waiters
${storeHelp}

Examples:
  leasehold watch nightly
  leasehold watch --all --json
`

export const watch: Command = {
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
    const lookPatiently = patientLook(target, interruption, context)
    let before: ReadonlyMap<string, LockInfo> = new Map()
    try {
      while (interruption.by === undefined) {
        // A store that nobody has used yet has no file to look at: that of the first one who does is opened then.
        const wasUnused = isUnused(url)
        await withLocks(given, { ...context, connect }, {}, async (locks) => {
          while (interruption.by === undefined && isUnused(url) === wasUnused) {
            const after = (await lookPatiently(locks)) ?? before
            for (const lock of changed(before, after)) context.print(`${show(target ?? lockNameOf(lock), lock)}\n`)
            before = after
            await pause(lookEveryMs, undefined, { signal: interruption.signal }).catch(() => {})
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

/** Looks at a store that may be away for a while, once it has answered: then it gives nothing, and says so once. */
function patientLook(
  target: Target | undefined,
  interruption: Interruption,
  { messages }: CommandContext,
): (locks: Locks) => Promise<Map<string, LockInfo> | undefined> {
  let state: 'new' | 'there' | 'away' = 'new'
  return async (locks) => {
    try {
      const found = await interruption.during(look(locks, target))
      if (state === 'away') messages.say('the store answers again')
      state = 'there'
      return found
    } catch (error) {
      if (interruption.by !== undefined || state === 'new' || !worthRetrying(error)) throw error
      if (state === 'there') messages.say(`${plainMessageOf(error)} It is asked again every second.`)
      state = 'away'
      return undefined
    }
  }
}

/** The one lock that is meant, or all there are, by their keys. */
async function look(locks: Locks, target: Target | undefined): Promise<Map<string, LockInfo>> {
  const found = new Map<string, LockInfo>()
  if (target === undefined) for await (const lock of everyLock(locks)) found.set(lock.key, lock)
  else {
    const key = `${locks.namespace}/${target.scope.key}`
    found.set(key, (await locks.inspect(target.scope)) ?? { scope: target.name, key, holders: [], waiters: [] })
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

function showState(called: LockName, { holders, waiters }: LockInfo): string {
  const now = new Date()
  const held = holders.map(({ runner, fence, range }) => {
    const which = range === undefined ? '' : `, bytes ${range.start} to ${range.end},`
    return `held by ${runnerText(runner)}${which} with fence ${fence}`
  })
  const waiting = waiters.length === 0 ? [] : [`${waiters.length} waiting`]
  return `${clockTime(now, now)} ${shownName(called)}: ${[...held, ...waiting].join(', ') || 'free'}`
}

function showDocument(called: LockName, lock: LockInfo): string {
  return printableJson(lockDocument(called, lock))
}
