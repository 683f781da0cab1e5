import { formatDuration } from '../../core/time/duration.ts'
import { commonOptions, durationOption, numberOption, type Given } from '../arguments.ts'
import type { Command } from '../command.ts'
import { interruptibly } from '../interruption.ts'
import { measure, type Load, type Measurement } from './measurement.ts'
import { shortTime } from '../output/short-time.ts'
import { chooseStore, describeStore, storeHelp } from '../stores/store.ts'
import { formatTable } from '../output/table.ts'
import { printableJson } from '../output/terminal-text.ts'
import { UsageError } from '../usage-error.ts'

const defaults = { forMs: 2000, locks: 100, clients: 4 } as const
const most = { locks: 10_000, clients: 100 } as const

const help = `Usage: leasehold bench [options]

Measures a store from here, with locks of its own that nobody else uses: one lock after the other, many at once,
renewals, and clients that take turns, each over a connection of its own. Leaves nothing behind. Others who use the
store meanwhile share it with you.

Options:
  --for DURATION      how long each of the four measurements takes, ${formatDuration(defaults.forMs)}
  --locks N           how many locks at once, ${defaults.locks}
  --clients N         how many clients take turns at one lock, ${defaults.clients}
  --json              one JSON document a measurement: measure, text, perSecond, medianMs, p99Ms
${storeHelp}

Examples:
  leasehold bench
  leasehold bench --store redis://127.0.0.1:6379 --locks 1000
  leasehold bench --store postgres://127.0.0.1/app --for 10s --clients 20 --json
`

export const bench: Command = {
  name: 'bench',
  summary: 'measure how fast a store is from here',
  help,
  options: {
    ...commonOptions,
    for: { type: 'string' },
    locks: { type: 'string' },
    clients: { type: 'string' },
    json: { type: 'boolean' },
  },
  async run(given, { variables, connect, messages, print }) {
    if (given.positionals.length > 0) throw new UsageError('bench takes no NAME.')
    const load = readLoad(given)
    const { url, namespace } = chooseStore(given, variables)
    if (url.startsWith('github:'))
      throw new UsageError('bench would write hundreds of comments to a repository. doctor tries a store with a few.')
    const isJson = given.flags.has('json')
    return interruptibly(messages, 'nothing is left behind', async (interruption) => {
      if (!isJson) messages.say(`measuring ${describeStore(url)}, ${shortTime(load.forMs * 4)} in all`)
      const measured: Measurement[] = []
      const open = () => interruption.during(connect(url, { namespace }))
      for await (const measurement of measure(open, load, interruption.signal)) {
        measured.push(measurement)
        if (isJson) print(`${printableJson(measurement)}\n`)
        else messages.status(`${measurement.text}: done`)
      }
      messages.clearStatus()
      if (!isJson) print(formatTable(['', 'a second', 'median', '99 %'], measured.map(rowOf)))
      return 0
    })
  },
}

function readLoad(given: Given): Load {
  return {
    forMs: durationOption(given, 'for', { from: 1, to: 86_400_000 }) ?? defaults.forMs,
    locksAtOnce: countOption(given, 'locks', 1),
    clients: countOption(given, 'clients', 2),
  }
}

function countOption(given: Given, name: keyof typeof most, least: number): number {
  return numberOption(given, name, { from: least, to: most[name] }) ?? defaults[name]
}

function rowOf({ text, perSecond, medianMs, p99Ms }: Measurement): string[] {
  const rounded = perSecond < 100 ? perSecond.toFixed(1) : Math.round(perSecond).toLocaleString('en')
  return [text, rounded, shortTime(medianMs), shortTime(p99Ms)]
}
