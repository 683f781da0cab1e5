import { redactedText } from '../../core/redaction.ts'
import { version } from '../../index.ts'
import { commonOptions } from '../arguments.ts'
import type { Command } from '../command.ts'
import { examine, type Finding } from './examination.ts'
import { exitCodeOf } from '../exit-codes.ts'
import { interruptibly } from '../interruption.ts'
import { chooseSharedStore, describeStore, isUnused, refuseMissing, storeHelp } from '../stores/store.ts'
import { printable, printableJson } from '../output/terminal-text.ts'
import { UsageError } from '../usage-error.ts'

const help = `Usage: leasehold doctor [options]

Tries whether the store does what locks need: opens it, takes and renews a lock of its own that nobody else uses, lets
it go to somebody who waits, and counts what is held. Says how long each took. Leaves no lock behind. A file that is
named and does not exist is not made.

Exits with 0 if all is well, also if something is worth a look, and else with the code of what is wrong, mostly 69.

Options:
  --json              one JSON document a finding: verdict (fine, look or wrong), text
${storeHelp}

Examples:
  leasehold doctor
  leasehold doctor --store redis://127.0.0.1:6379
  leasehold doctor --json
`

const marks: Record<Finding['verdict'], string> = { fine: 'ok   ', look: 'WARN ', wrong: 'FAIL ' }

export const doctor: Command = {
  name: 'doctor',
  summary: 'try whether a store does what locks need',
  help,
  options: { ...commonOptions, json: { type: 'boolean' } },
  async run(given, { variables, connect, messages, print }) {
    if (given.positionals.length > 0) throw new UsageError('doctor takes no NAME.')
    const { url, namespace } = chooseSharedStore(given, variables)
    if (!given.flags.has('json'))
      messages.say(`version ${version}, Node ${process.versions.node}, ${describeStore(url)}`)
    if (isUnused(url)) messages.say('nobody has used this store yet: its file is made now')
    return interruptibly(messages, 'no lock is left behind', async (interruption) => {
      const open = async () => {
        refuseMissing(url)
        return interruption.during(
          connect(url, { namespace, logger: { debug: () => {}, info: () => {}, warn: (text) => warnings.add(text) } }),
        )
      }
      const warnings = new Set<string>()
      let exitCode = 0
      for await (const { verdict, text: found, error } of examine(open, warnings, interruption.signal)) {
        const text = redactedText(found)
        print(
          given.flags.has('json') ? `${printableJson({ verdict, text })}\n` : `${marks[verdict]} ${printable(text)}\n`,
        )
        if (verdict === 'wrong') exitCode = exitCodeOf(error)
      }
      return exitCode
    })
  },
}
