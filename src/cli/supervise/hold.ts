import { durationMs, formatDuration } from '../../core/time/duration.ts'
import { systemEnvironment } from '../../core/time/environment.ts'
import type { Lease, Locks } from '../../index.ts'
import type { CommandContext } from '../command.ts'
import { CommandProcess, type ProcessExit } from './command-process.ts'
import { exitCodes, signalExitCode, startFailureExitCode } from '../exit-codes.ts'
import type { Interruption } from '../interruption.ts'
import { LeaseWatch, isLongestHold } from './lease-watch.ts'
import type { RunRequest } from './run-request.ts'
import { type StoreChoice, identifyStores } from '../stores/store.ts'
import { quoted } from '../output/terminal-text.ts'
import { lockTag, sweepsFinished } from './watchdog.ts'

/** How long to wait for the store to confirm a release. */
const releaseMaxMs = 2000

/** The reason to stop a command whose lease reaches its longest hold. */
const heldLongest = '--max-hold is near'

interface Holding {
  readonly request: RunRequest
  readonly store: StoreChoice
  readonly context: CommandContext
  readonly interruption: Interruption
}

/** How a run under a lease ended. */
export interface HoldResult {
  readonly exitCode: number
  /** Whether the command was stopped because of the lease, or ended after the lease had. */
  readonly isLost: boolean
}

/** Runs the command while the lease is held, then releases the lease. */
export async function holdDuring(lease: Lease, locks: Locks, holding: Holding): Promise<HoldResult> {
  const { request, context, interruption } = holding
  try {
    // A signal during the grant means: start no command.
    if (interruption.by !== undefined) throw new Error('interrupted')
    await letSweepsFinish(lease, holding)
    // If the lease was lost since the grant, while we waited or were suspended, start nothing.
    if (!lease.held) {
      const why = lease.loss?.reason ?? 'expired'
      context.messages.say(`the lease on ${request.label} was lost before the command began: ${why}.`)
      return { exitCode: exitCodes.leaseLost, isLost: true }
    }
    const command = await start(lease, locks, holding)
    if (typeof command === 'number') return { exitCode: command, isLost: false }
    return await follow(command, lease, locks, holding)
  } finally {
    await release(lease, request.label, context.messages.say)
  }
}

/** Waits until watchdogs on this machine have killed what an earlier holder left behind. */
async function letSweepsFinish(lease: Lease, holding: Holding): Promise<void> {
  const { request, context, interruption } = holding
  if (await sweepsFinished(tagOf(lease, holding), interruption.signal)) return
  if (interruption.by !== undefined) throw new Error('interrupted')
  context.messages.say(
    `processes of the previous holder of ${request.label} are still running on this machine: only the fence protects`,
  )
}

function tagOf(lease: Lease, { store }: Holding): string {
  return lockTag(identifyStores(store.url).url, lease.key)
}

/** Starts the command. Resolves to an exit code if it cannot be started. */
async function start(lease: Lease, locks: Locks, holding: Holding): Promise<CommandProcess | number> {
  const { request, context } = holding
  const variables = commandEnvironment(lease, locks, holding)
  try {
    return await CommandProcess.start({
      command: request.command,
      args: request.commandArguments,
      variables,
      lock: tagOf(lease, holding),
    })
  } catch (error) {
    const failure = error as NodeJS.ErrnoException
    context.messages.say(`cannot run ${quoted(request.command)}: ${describeStartFailure(failure)}`)
    return startFailureExitCode(failure)
  }
}

function describeStartFailure({ code, message }: NodeJS.ErrnoException): string {
  if (code === 'ENOENT') return 'not found'
  return code === 'EACCES' ? 'not executable' : message
}

/** The command's environment. Never the claim's id: anybody who knows it can release the lock. */
function commandEnvironment(lease: Lease, locks: Locks, { request, store, context }: Holding): NodeJS.ProcessEnv {
  return {
    ...context.variables,
    LEASEHOLD_FENCE: String(lease.fence),
    LEASEHOLD_NAME: request.name,
    LEASEHOLD_NAMESPACE: locks.namespace,
    LEASEHOLD_STORE: store.url,
    LEASEHOLD_KEY: lease.key,
  }
}

async function follow(command: CommandProcess, lease: Lease, locks: Locks, holding: Holding): Promise<HoldResult> {
  const { request, context, interruption } = holding
  const { say } = context.messages
  const { ttlMs } = lease.toJSON()
  const { maxHold } = request.acquire
  const maxHoldMs = maxHold === undefined ? undefined : durationMs(maxHold, 'maxHold')
  const isLongest = (): boolean => isLongestHold(lease, ttlMs, maxHoldMs)
  const watch = new LeaseWatch({
    lease,
    // With a longest hold below the ttl, measure jeopardy against that: the lease is not in danger from the start.
    ttlMs: Math.min(ttlMs, maxHoldMs ?? Infinity),
    killAfterMs: request.killAfterMs,
    environment: systemEnvironment(),
    signal: (name) => command.stop(name),
    say,
    whyNoLonger: () => (isLongest() ? heldLongest : undefined),
  })
  const listeners = reportDanger(locks, watch, request.label, isLongest, say)
  interruption.receiver = (signal) => command.forward(signal)
  interruption.forwarder = (signal) => command.passSignal(signal)
  // Sent while the command was being started: also at a terminal nobody knows whether it was there to get it.
  if (interruption.by !== undefined) command.family.signal(interruption.by)
  command.resumed = () => watch.check()
  try {
    const ending = await command.ended
    // Looks at the clock once more: a command that ended too late has done unprotected work, and what it left is stopped.
    if (!lease.held) watch.check()
    const isLost = watch.stoppedBecause !== undefined || !lease.held
    const left = isLost ? await command.restEnded(() => watch.killed) : []
    if (left.length > 0) say(`could not be stopped: process ${left.join(', ')}. Only the fence protects.`)
    if (isLost) return { exitCode: lost(lease, watch, request, say), isLost }
    if (command.leftSomething) say('the command ended and left processes behind: they run on without the lock')
    return { exitCode: exitCodeOfEnding(ending), isLost }
  } finally {
    interruption.receiver = undefined
    interruption.forwarder = undefined
    watch[Symbol.dispose]()
    command[Symbol.dispose]()
    for (const listener of listeners) listener[Symbol.dispose]()
  }
}

/** Reports what happens to the lease, and has the watch check it. */
function reportDanger(
  locks: Locks,
  watch: LeaseWatch,
  label: string,
  isLongest: () => boolean,
  say: (message: string) => void,
): readonly Disposable[] {
  let isInDanger = false
  return [
    locks.on('jeopardy', ({ reason, remainingMs }) => {
      const left = `${formatDuration(remainingMs)} left`
      // Near its longest hold a lease is not renewed in full: the store has not failed.
      isInDanger = !isLongest()
      if (!isInDanger) say(`${label} is near its --max-hold: ${left}`)
      else say(`the lease on ${label} could not be renewed (${reason}): ${left}`)
      watch.check()
    }),
    locks.on('renewed', () => {
      if (isInDanger && watch.stoppedBecause === undefined) say(`the lease on ${label} was renewed after all`)
      isInDanger = false
      watch.check()
    }),
    locks.on('leaving', ({ reason }) => watch.leave(`asked to leave: ${reason}`)),
    locks.on('lost', ({ reason }) => watch.leave(reason)),
  ]
}

function lost(lease: Lease, watch: LeaseWatch, { label }: RunRequest, say: (message: string) => void): number {
  const why = lease.loss?.reason ?? watch.stoppedBecause ?? 'expired'
  if (why === heldLongest) say(`${label} was held for as long as --max-hold allows, and the command was stopped.`)
  else say(`the lease on ${label} was lost: ${why}. Fence ${lease.fence} may be superseded.`)
  return exitCodes.leaseLost
}

function exitCodeOfEnding({ code, signal }: ProcessExit): number {
  return signal === null ? (code ?? exitCodes.internal) : signalExitCode(signal)
}

async function release(lease: Lease, label: string, say: (message: string) => void): Promise<void> {
  const timedOut = new Promise<undefined>((resolve) => setTimeout(resolve, releaseMaxMs, undefined).unref())
  const result = await Promise.race([lease.release(), timedOut])
  if (result === undefined || result.reason === 'unavailable') {
    const left = formatDuration(lease.toJSON().ttlMs)
    say(`the store does not answer: ${label} could not be let go and ends by itself within ${left}`)
  }
}
