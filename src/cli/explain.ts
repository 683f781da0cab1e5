import { explainLock } from '../api/inspection.ts'
import { named } from '../index.ts'
import { commonOptions, onlyName } from './arguments.ts'
import type { Command } from './command.ts'
import { lockDocument } from './lock-document.ts'
import { storeHelp, withLocks } from './store.ts'
import { printable, printableCopy, printableJson } from './terminal-text.ts'

const help = `Usage: leasehold explain NAME [options]

Says who holds the lock NAME, since when, and who waits for it in which order.

Options:
  --json              one JSON document: name, key, holders, waiters
${storeHelp}

Examples:
  leasehold explain nightly
  leasehold explain nightly --json | jq '.holders[0].fence'
`

export const explain: Command = {
  name: 'explain',
  summary: 'say who holds a lock and who waits for it',
  help,
  options: { ...commonOptions, json: { type: 'boolean' } },
  async run(given, surroundings) {
    const name = onlyName(given, 'explain')
    const { key } = named(name)
    return withLocks(given, surroundings, {}, async (locks) => {
      const lock = await locks.inspect(name)
      if (given.flags.has('json')) {
        const free = { scope: name, key: `${locks.namespace}/${key}`, holders: [], waiters: [] }
        surroundings.print(`${printableJson(lockDocument(lock ?? free))}\n`)
      } else surroundings.print(`${explainLock(printable(name), printableCopy(lock))}\n`)
      return 0
    })
  },
}
