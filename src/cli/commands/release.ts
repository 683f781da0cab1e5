import { LeaseholdError } from '../../index.ts'
import { commonOptions } from '../arguments.ts'
import type { Command } from '../command.ts'
import { exitCodes, UsageError } from '../exit-codes.ts'
import { proofFile, readProof, removeProof } from '../stores/proof-file.ts'
import { isProofSpent, notKnownHere, proofStoreHelp, withLocksOf } from '../stores/proof-store.ts'

const help = `Usage: leasehold release --proof FILE [options]

Releases a lock that acquire took, and removes FILE, even if the store says that the lock is no longer yours.

Options:
  --proof FILE        the file that acquire wrote
${proofStoreHelp}

Exit codes: 0 released, 64 wrong use, 69 the store cannot be reached, 76 it was no longer yours: what you did last
            may have been unprotected

Examples:
  leasehold release --proof deploy.proof
  trap 'leasehold release --proof deploy.proof' EXIT
`

/** `leasehold release` */
export const releaseCommand: Command = {
  name: 'release',
  summary: 'release a lock that acquire took',
  help,
  options: { ...commonOptions, proof: { type: 'string' } },
  async run(given, context) {
    if (given.positionals.length > 0) throw new UsageError('release takes no NAME: the proof says which lock it is.')
    const file = proofFile(given, 'release')
    const read = readProof(file)
    const { proof, store } = read
    return withLocksOf(read, given, context, async (locks) => {
      try {
        const lease = await locks.resume(proof, { heartbeat: 'manual' })
        const { released } = await lease.release()
        if (!released)
          throw new LeaseholdError('UNAVAILABLE', 'The store did not answer whether the lock was released.')
      } catch (error) {
        if (!isProofSpent(error)) throw error
        if (store === undefined) throw notKnownHere(file)
        removeProof(file)
        context.messages.say(`the lock is no longer yours: fence ${proof.fence} may be superseded`)
        return exitCodes.leaseLost
      }
      removeProof(file)
      return 0
    })
  },
}
