import { userInfo } from 'node:os'
import path from 'node:path'
import type { Lease, Locks } from '../index.ts'
import type { Command, Surroundings } from './command.ts'
import { exitCodesHelp, signalExitCode } from './exit-codes.ts'
import { holdDuring } from './hold.ts'
import { describeRunner } from './holder-text.ts'
import { Interruption } from './interruption.ts'
import { readRunRequest, runOptions, type RunRequest } from './run-request.ts'
import { chooseStore, storeHelp, type StoreChoice } from './store.ts'
import { quoted } from './terminal-text.ts'
import { WaitingReport } from './waiting-report.ts'

/** A store that does not answer delays the exit by no more than this; what is left ends by its ttl. */
const closeMaxMs = 1000

const help = `Usage: leasehold run NAME [options] -- COMMAND [ARGUMENT ...]

Takes the lock NAME, runs COMMAND, and lets the lock go. Waits its turn if somebody else holds it.

Options:
  --shared            hold it together with others that say --shared; those that do not hold it alone
  --permits N         hold one of N permits; all that use NAME must say the same N
  --wait DURATION     give up after this time, with exit code 75; else wait as long as it takes
  --no-wait           do not wait at all
  --ttl DURATION      how long the lease lasts unless renewed, 30s; it is renewed while COMMAND runs
  --max-hold DURATION the longest COMMAND may hold the lock; it is stopped before that
  --kill-after DURATION
                      time between SIGTERM and SIGKILL when COMMAND has to be stopped, 5s
  --priority N        higher goes first: low, normal, high, or -1000 to 1000
  --on-conflict WHAT  wait, fail, steal-stale, preempt, reclaim or force
${storeHelp}
  -q, --quiet         say nothing about waiting

COMMAND finds in its environment:
  LEASEHOLD_FENCE     a number that grows with every grant: pass it with every write
  LEASEHOLD_NAME, LEASEHOLD_NAMESPACE, LEASEHOLD_KEY, LEASEHOLD_STORE

If the lease can no longer be renewed, COMMAND and all that it started are stopped before the lease can end: SIGTERM
while there is time to end in good order, then SIGKILL. A lease that is taken away stops it at once. If leasehold itself
is killed, COMMAND is killed too; if leasehold is suspended (SIGSTOP), nobody can stop COMMAND, and only the fence
protects what it writes to.

${exitCodesHelp}

Examples:
  leasehold run nightly -- ./backup.sh
  leasehold run deploy --wait 10m --max-hold 1h -- make deploy
  leasehold run website --shared -- ./render.sh
  leasehold run downloads --permits 3 -- ./download.sh
  leasehold run reindex --no-wait -- ./reindex.sh || echo 'somebody else is at it'
  leasehold run demo -- sh -c 'echo I hold fence $LEASEHOLD_FENCE; sleep 2'
  leasehold run -- -odd-name -- true
`

export const run: Command = {
  name: 'run',
  summary: 'run a command while holding a lock',
  help,
  options: runOptions,
  takesCommand: true,
  async run(given, surroundings) {
    const request = readRunRequest(given)
    const store = chooseStore(given, surroundings.variables)
    const interruption = new Interruption()
    try {
      return await runLocked(request, store, surroundings, interruption)
    } catch (error) {
      if (interruption.by === undefined) throw error
      surroundings.messages.say(`interrupted: ${quoted(request.name)} was not taken`)
      return signalExitCode(interruption.by)
    } finally {
      interruption[Symbol.dispose]()
    }
  },
}

async function runLocked(
  request: RunRequest,
  store: StoreChoice,
  surroundings: Surroundings,
  interruption: Interruption,
): Promise<number> {
  const connecting = surroundings.connect(store.url, {
    namespace: store.namespace,
    metadata: describeOurselves(request),
    allowForce: request.acquire.onConflict === 'force',
  })
  const locks = await interruption.during(connecting)
  try {
    const lease = await acquire(locks, request, surroundings, interruption)
    return await holdDuring(lease, locks, { request, store, surroundings, interruption })
  } finally {
    await Promise.race([locks.close(), new Promise((resolve) => setTimeout(resolve, closeMaxMs).unref())])
  }
}

/** Who holds the lock, for those who wait. The command's arguments stay here: they may be secret. */
function describeOurselves({ command }: RunRequest): Record<string, unknown> {
  return { command: path.basename(command).slice(0, 100), ...userName() }
}

function userName(): { user?: string } {
  try {
    return { user: userInfo().username }
  } catch {
    return {} // A container may run under a number without a name.
  }
}

async function acquire(
  locks: Locks,
  request: RunRequest,
  { messages }: Surroundings,
  { signal }: Interruption,
): Promise<Lease> {
  const { name, quiet } = request
  if (quiet) return take(locks, request, signal)
  const report = new WaitingReport(locks, name, messages)
  const takeover = locks.on('takeover', ({ after }) => {
    report.granted()
    const who = describeRunner(after.runner)
    messages.say(`the holder before did not let go (${after.how}): ${who}. Its work may be half done.`)
  })
  try {
    const lease = await take(locks, request, signal)
    report.granted()
    return lease
  } finally {
    report[Symbol.dispose]()
    takeover[Symbol.dispose]()
  }
}

/** Alone, together with others, or as one of so many. */
function take(locks: Locks, request: RunRequest, signal: AbortSignal): Promise<Lease> {
  const { name, shared, permits } = request
  const options = { ...request.acquire, signal }
  if (permits !== undefined) return locks.semaphore(name, permits).acquire(options)
  return shared ? locks.readWrite(name).read(options) : locks.acquire(name, options)
}
