import { formatDuration } from '../core/duration.ts'
import { systemEnvironment } from '../core/environment.ts'
import type { Lease, Locks } from '../index.ts'
import type { Surroundings } from './command.ts'
import { CommandProcess, type Ending } from './command-process.ts'
import { exitCodes, signalExitCode, startFailureExitCode } from './exit-codes.ts'
import type { Interruption } from './interruption.ts'
import { LeaseWatch } from './lease-watch.ts'
import type { RunRequest } from './run-request.ts'
import type { StoreChoice } from './store.ts'
import { printable, quoted } from './terminal-text.ts'

/** How long to wait for the store's word on a release. */
const releaseMaxMs = 2000

interface Holding {
  readonly request: RunRequest
  readonly store: StoreChoice
  readonly surroundings: Surroundings
  readonly interruption: Interruption
}

/** Runs the command while the lease is held and lets the lease go. Gives the exit code. */
export async function holdDuring(lease: Lease, locks: Locks, holding: Holding): Promise<number> {
  const { request, surroundings } = holding
  try {
    const command = await start(lease, locks, holding)
    return typeof command === 'number' ? command : await follow(command, lease, locks, holding)
  } finally {
    await release(lease, request.name, surroundings.messages.say)
  }
}

/** The command running, or the exit code if the system would not start it. */
async function start(lease: Lease, locks: Locks, holding: Holding): Promise<CommandProcess | number> {
  const { request, surroundings } = holding
  const variables = commandEnvironment(lease, locks, holding)
  try {
    return await CommandProcess.start(request.command, request.commandArguments, variables)
  } catch (error) {
    const failure = error as NodeJS.ErrnoException
    surroundings.messages.say(`cannot run ${quoted(request.command)}: ${describeStartFailure(failure)}`)
    return startFailureExitCode(failure)
  }
}

function describeStartFailure({ code, message }: NodeJS.ErrnoException): string {
  if (code === 'ENOENT') return 'not found'
  return code === 'EACCES' ? 'not executable' : printable(message)
}

/** What the command is told. Never the claim's id: whoever knows it can release the lock. */
function commandEnvironment(lease: Lease, locks: Locks, { request, store, surroundings }: Holding): NodeJS.ProcessEnv {
  return {
    ...surroundings.variables,
    LEASEHOLD_FENCE: String(lease.fence),
    LEASEHOLD_NAME: request.name,
    LEASEHOLD_NAMESPACE: locks.namespace,
    LEASEHOLD_STORE: store.url,
    LEASEHOLD_KEY: lease.key,
  }
}

async function follow(command: CommandProcess, lease: Lease, locks: Locks, holding: Holding): Promise<number> {
  const { request, surroundings, interruption } = holding
  const { say } = surroundings.messages
  const watch = new LeaseWatch({
    lease,
    ttlMs: lease.toJSON().ttlMs,
    killAfterMs: request.killAfterMs,
    environment: systemEnvironment(),
    signal: (name) => command.stop(name),
    say,
  })
  const listeners = reportDanger(locks, watch, request, say)
  interruption.receiver = (signal) => command.forward(signal)
  if (interruption.by !== undefined) command.forward(interruption.by)
  command.resumed = () => watch.look()
  try {
    const ending = await command.ended
    // Looks at the clock once more: a command that ended too late has done unprotected work.
    const isLost = watch.stoppedBecause !== undefined || !lease.held
    if (watch.stoppedBecause !== undefined) await command.restEnded(() => watch.killed)
    if (isLost) return lost(lease, watch, request, say)
    if (command.leftSomething) say('the command ended and left processes behind: they run on without the lock')
    return exitCodeOfEnding(ending)
  } finally {
    watch[Symbol.dispose]()
    command[Symbol.dispose]()
    for (const listener of listeners) listener[Symbol.dispose]()
  }
}

/** Says what happens to the lease, and has the watch look at it. */
function reportDanger(
  locks: Locks,
  watch: LeaseWatch,
  { name, acquire: { maxHold } }: RunRequest,
  say: (message: string) => void,
): readonly Disposable[] {
  let isInDanger = false
  return [
    locks.on('jeopardy', ({ reason, remainingMs }) => {
      isInDanger = true
      const left = `${formatDuration(remainingMs)} left`
      // A lease that must end is not renewed in full: that is no failure of the store.
      if (maxHold !== undefined && reason === 'not renewed') say(`${quoted(name)} is near its --max-hold: ${left}`)
      else say(`the lease on ${quoted(name)} could not be renewed (${printable(reason)}): ${left}`)
      watch.look()
    }),
    locks.on('renewed', () => {
      if (isInDanger && watch.stoppedBecause === undefined) say(`the lease on ${quoted(name)} was renewed after all`)
      isInDanger = false
      watch.look()
    }),
    locks.on('leaving', ({ reason }) => watch.leave(`asked to leave: ${reason}`)),
    locks.on('lost', ({ reason }) => watch.leave(reason)),
  ]
}

function lost(lease: Lease, watch: LeaseWatch, { name }: RunRequest, say: (message: string) => void): number {
  const why = printable(lease.loss?.reason ?? watch.stoppedBecause ?? 'expired')
  say(`the lease on ${quoted(name)} was lost: ${why}. Fence ${lease.fence} may be superseded.`)
  return exitCodes.leaseLost
}

function exitCodeOfEnding({ code, signal }: Ending): number {
  return signal === null ? (code ?? exitCodes.internal) : signalExitCode(signal)
}

async function release(lease: Lease, name: string, say: (message: string) => void): Promise<void> {
  const patience = new Promise<undefined>((resolve) => setTimeout(resolve, releaseMaxMs, undefined).unref())
  const result = await Promise.race([lease.release(), patience])
  if (result === undefined || result.reason === 'unavailable') {
    const left = formatDuration(lease.toJSON().ttlMs)
    say(`the store does not answer: ${quoted(name)} could not be let go and ends by itself within ${left}`)
  }
}
