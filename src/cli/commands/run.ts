import type { Command } from '../command.ts'
import { exitCodesHelp } from '../exit-codes.ts'
import { interruptibly } from '../interruption.ts'
import { kindHelp } from '../output/lock-name.ts'
import { runLocked } from '../supervise/locked-run.ts'
import { conflictHelp, readRunRequest, runOptions } from '../supervise/run-request.ts'
import { chooseSharedStore, storeHelp } from '../stores/store.ts'

const help = `Usage: leasehold run NAME [options] -- COMMAND [ARGUMENT ...]

Takes the lock NAME, runs COMMAND, and releases the lock. Waits its turn if somebody else holds it.

Options:
${kindHelp}
  --shared            hold it together with others that say --shared; those that do not hold it alone
  --permits N         hold one of N permits; all that use NAME must say the same N
  --wait DURATION     give up after this time, with exit code 75; else wait as long as it takes
  --no-wait           do not wait at all
  --ttl DURATION      how long the lease lasts unless renewed; default 30s. It is renewed while COMMAND runs
  --max-hold DURATION the longest COMMAND may hold the lock; it is stopped before that
  --kill-after DURATION
                      time between SIGTERM and SIGKILL when COMMAND has to be stopped; default 5s
  --priority N        higher goes first: low, normal, high, or -1000 to 1000
${conflictHelp}
${storeHelp}
  -q, --quiet         say nothing about waiting

COMMAND finds in its environment:
  LEASEHOLD_FENCE     a number that grows with every grant: pass it with every write
  LEASEHOLD_NAME, LEASEHOLD_NAMESPACE, LEASEHOLD_KEY, LEASEHOLD_STORE
  LEASEHOLD_RUN       a mark by which Leasehold finds the processes that COMMAND started

If the lease can no longer be renewed, COMMAND and all that it started are stopped before the lease expires: SIGTERM
while there is time to end in good order, then SIGKILL. If the lock is evicted or preempted, SIGTERM comes at once and
SIGKILL up to --kill-after later: meanwhile only the fence protects what COMMAND writes to. If leasehold itself is
killed, COMMAND and all that it started are killed too. If leasehold is suspended (SIGSTOP), nothing can stop COMMAND,
and again only the fence protects.

${exitCodesHelp}

Examples:
  leasehold run nightly -- ./backup.sh
  leasehold run deploy --wait 10m --max-hold 1h -- make deploy
  leasehold run website --shared -- ./render.sh
  leasehold run downloads --permits 3 -- ./download.sh
  leasehold run reindex --no-wait -- ./reindex.sh || echo 'somebody else is at it'
  leasehold run worker-7 --runner worker-7 --on-conflict reclaim -- ./worker.sh
  leasehold run demo -- sh -c 'echo I hold fence $LEASEHOLD_FENCE; sleep 2'
  leasehold run -- -odd-name -- true
`

/** `leasehold run` */
export const runCommand: Command = {
  name: 'run',
  summary: 'run a command while holding a lock',
  help,
  options: runOptions,
  takesCommand: true,
  async run(given, context) {
    const request = readRunRequest('run', given)
    const store = chooseSharedStore(given, context.variables)
    return interruptibly(context.messages, `${request.label} was not taken`, async (interruption) => {
      const { exitCode } = await runLocked(request, store, context, interruption)
      return exitCode
    })
  },
}
