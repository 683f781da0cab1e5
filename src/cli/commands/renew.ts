import { untilWhen } from './acquire.ts'
import { commonOptions, durationOption, someTime } from '../arguments.ts'
import type { Command } from '../command.ts'
import { proofFile, readProof } from '../stores/proof-file.ts'
import { isProofSpent, notKnownHere, proofStoreHelp, withLocksOf } from '../stores/proof-store.ts'
import { UsageError } from '../exit-codes.ts'

const help = `Usage: leasehold renew --proof FILE [options]

Renews a lock that acquire took: it then ends --ttl from now.

Options:
  --proof FILE        the file that acquire wrote
  --ttl DURATION      how long the lock is yours unless renewed again; default: the --ttl of acquire
${proofStoreHelp}

Exit codes: 0 renewed, 64 wrong use, 69 the store cannot be reached, 76 the lock is no longer yours

Examples:
  leasehold renew --proof deploy.proof
  leasehold renew --proof deploy.proof --ttl 1h || exit 1
`

/** `leasehold renew` */
export const renewCommand: Command = {
  name: 'renew',
  summary: 'renew a lock that acquire took',
  help,
  options: { ...commonOptions, proof: { type: 'string' }, ttl: { type: 'string' } },
  async run(given, context) {
    if (given.positionals.length > 0) throw new UsageError('renew takes no NAME: the proof says which lock it is.')
    const file = proofFile(given, 'renew')
    const read = readProof(file)
    const { proof, store } = read
    const ttl = durationOption(given, 'ttl', someTime) ?? proof.ttlMs
    return withLocksOf(read, given, context, async (locks) => {
      try {
        const lease = await locks.resume(proof, { ttl, heartbeat: 'manual' })
        await lease.handOff()
        context.messages.say(`the lock is yours ${untilWhen(lease)} unless you renew it again`)
        return 0
      } catch (error) {
        throw isProofSpent(error) && store === undefined ? notKnownHere(file) : error
      }
    })
  },
}
