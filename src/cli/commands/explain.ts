import { explainLock } from '../../api/operators/inspection.ts'
import { commonOptions, onlyName } from '../arguments.ts'
import type { Command } from '../command.ts'
import { lockJson } from '../output/lock-json.ts'
import { kindHelp, kindOption, readTarget, shownName } from '../output/lock-name.ts'
import { storeHelp, withLocks } from '../stores/store.ts'
import { printableJson } from '../output/terminal-text.ts'

const help = `Usage: leasehold explain NAME [options]

Says who holds the lock NAME, since when, and who waits for it in which order.

Options:
${kindHelp}
  --json              one JSON document: kind, name, key, held, waiting, holders, waiters
${storeHelp}

Examples:
  leasehold explain nightly
  leasehold explain --kind inode 7
  leasehold explain nightly --json | jq '.holders[0].fence'
`

/** `leasehold explain` */
export const explainCommand: Command = {
  name: 'explain',
  summary: 'say who holds a lock and who waits for it',
  help,
  options: { ...commonOptions, ...kindOption, json: { type: 'boolean' } },
  async run(given, context) {
    const target = readTarget(given, onlyName(given, 'explain'))
    return withLocks(given, context, {}, async (locks) => {
      const lock = await locks.inspect(target.scope)
      if (given.flags.has('json')) {
        const free = {
          scope: target.name,
          key: `${locks.namespace}/${target.scope.key}`,
          holders: [],
          waiters: [],
          held: 0,
          waiting: 0,
        }
        context.print(`${printableJson(lockJson(target, lock ?? free))}\n`)
      } else context.print(`${explainLock(shownName(target), lock)}\n`)
      return 0
    })
  },
}
