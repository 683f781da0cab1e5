import { setTimeout as pause } from 'node:timers/promises'
import { plainMessageOf, worthRetrying } from '../../core/errors.ts'
import { commonOptions, type OptionTable } from '../arguments.ts'
import type { Command, CommandContext } from '../command.ts'
import { exitCodesHelp } from '../exit-codes.ts'
import { interruptibly, type Interruption } from '../interruption.ts'
import { targetOf } from '../output/lock-name.ts'
import { runLocked } from '../supervise/locked-run.ts'
import { readRunRequest, runOptions, type RunRequest } from '../supervise/run-request.ts'
import { chooseSharedStore, storeHelp, type StoreChoice } from '../stores/store.ts'

/** Pause before the next candidacy after the store could not be reached. */
const againMs = 1000

const help = `Usage: leasehold elect NAME [options] -- COMMAND [ARGUMENT ...]

Runs COMMAND in one place at a time: start this on as many machines as you like, and COMMAND runs where the leader is.
When the leader ends, or can no longer renew its lease, another candidate starts COMMAND. A leader that lost its lease
stops COMMAND, as run does, and becomes a candidate again. When COMMAND ends by itself, elect exits with its exit code.

NAME is the NAME of locks.elect(NAME): programs and this command take part in the same election, over the lock
leader:NAME.

Options:
  --ttl DURATION      how long the lease lasts unless renewed; default 30s. A vanished leader blocks for that long
  --max-hold DURATION the longest a leader may lead; COMMAND is then stopped, and the next candidate leads
  --kill-after DURATION
                      time between SIGTERM and SIGKILL when COMMAND has to be stopped; default 5s
  --priority N        higher goes first: low, normal, high, or -1000 to 1000
${storeHelp}
  -q, --quiet         say nothing about waiting

COMMAND gets the same environment variables as with run: LEASEHOLD_FENCE grows with every election.

${exitCodesHelp}

Examples:
  leasehold elect scheduler -- ./scheduler
  leasehold elect scheduler --ttl 10s --priority high -- ./scheduler
  leasehold explain leader:scheduler
`

const { ttl, 'max-hold': maxHold, 'kill-after': killAfter, priority, quiet } = runOptions
const options = {
  ...commonOptions,
  ttl,
  'max-hold': maxHold,
  'kill-after': killAfter,
  priority,
  quiet,
} satisfies OptionTable

/** `leasehold elect` */
export const electCommand: Command = {
  name: 'elect',
  summary: 'run a command where the leader is',
  help,
  options,
  takesCommand: true,
  async run(given, context) {
    const request = readRunRequest('elect', given)
    const store = chooseSharedStore(given, context.variables)
    return interruptibly(context.messages, `${request.label} is led by somebody else, or nobody`, (interruption) =>
      lead({ ...request, ...targetOf('name', `leader:${request.name}`) }, store, context, interruption),
    )
  },
}

/** Leads again and again, until the command ends by itself or a signal asks us to end. */
async function lead(
  request: RunRequest,
  store: StoreChoice,
  context: CommandContext,
  interruption: Interruption,
): Promise<number> {
  const { messages } = context
  let isReached = false
  const connect: CommandContext['connect'] = async (...where) => {
    const locks = await context.connect(...where)
    isReached = true
    return locks
  }
  for (;;) {
    try {
      const { exitCode, isLost } = await runLocked(request, store, { ...context, connect }, interruption)
      if (!isLost || interruption.isWanted) return exitCode
    } catch (error) {
      // If the store was never reached, report the error. If it was, it may come back: become a candidate again.
      if (!isReached || interruption.isWanted || !worthRetrying(error)) throw error
      messages.say(plainMessageOf(error))
      await pause(againMs, undefined, { signal: interruption.signal })
    }
    messages.say(`candidate for ${request.label} again`)
  }
}
