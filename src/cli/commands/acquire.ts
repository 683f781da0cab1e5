import { formatDuration } from '../../core/time/duration.ts'
import type { Lease, Locks } from '../../index.ts'
import { commonOptions, onlyName, type OptionTable } from '../arguments.ts'
import type { Command, CommandContext } from '../command.ts'
import { clockTime } from '../output/holder-text.ts'
import { interruptibly, type Interruption } from '../interruption.ts'
import { kindHelp, kindOption } from '../output/lock-name.ts'
import { proofFile, refuseUnwritable, writeProof } from '../stores/proof-file.ts'
import { conflictHelp, readRequestedLock, runOptions, type RequestedLock } from '../supervise/run-request.ts'
import { chooseSharedStore, storeHelp, type StoreChoice } from '../stores/store.ts'
import { takeVisibly, userName } from '../supervise/taking.ts'
import { UsageError } from '../exit-codes.ts'

const help = `Usage: leasehold acquire NAME --ttl DURATION --proof FILE [options]

Takes the lock NAME and keeps it after exiting, for scripts whose steps are separate processes. Nobody renews the
lock: it ends after --ttl unless you call renew; release lets it go. Prints the fence. For a single command, run is
safer: it renews by itself, and stops the command when the lock is lost.

FILE is readable for you alone: anybody who can read it can release the lock. It names the store, without passwords.

Options:
  --ttl DURATION      how long the lock is yours unless renewed
  --proof FILE        where to write what renew and release need; it must not exist
${kindHelp}
  --shared            hold it together with others that say --shared; those that do not hold it alone
  --permits N         hold one of N permits; all that use NAME must say the same N
  --wait DURATION     give up after this time, with exit code 75; else wait as long as it takes
  --no-wait           do not wait at all
  --priority N        higher goes first: low, normal, high, or -1000 to 1000
  --max-hold DURATION the longest it may be held, renewed or not
${conflictHelp}
${storeHelp}
  -q, --quiet         say nothing about waiting

Exit codes: 0 it is yours, 64 wrong use, 69 the store cannot be reached, 74 FILE could not be written, 75 not granted

Examples:
  leasehold acquire deploy --ttl 10m --proof deploy.proof --wait 5m
  fence=$(leasehold acquire deploy --ttl 10m --proof deploy.proof)
  leasehold renew --proof deploy.proof
  leasehold release --proof deploy.proof
`

const { ttl, wait, 'no-wait': noWait, priority, 'max-hold': maxHold, shared, permits, quiet } = runOptions

/** `leasehold acquire` */
export const acquireCommand: Command = {
  name: 'acquire',
  summary: 'take a lock and keep it after exiting',
  help,
  options: {
    ...commonOptions,
    ...kindOption,
    proof: { type: 'string' },
    ttl,
    wait,
    'no-wait': noWait,
    priority,
    'max-hold': maxHold,
    'on-conflict': runOptions['on-conflict'],
    'stale-after': runOptions['stale-after'],
    runner: runOptions.runner,
    shared,
    permits,
    quiet,
  } satisfies OptionTable,
  async run(given, context) {
    const wanted = readRequestedLock('acquire', onlyName(given, 'acquire'), given)
    if (wanted.acquire.ttl === undefined)
      throw new UsageError('acquire needs --ttl DURATION: nobody renews the lock by itself.')
    const file = proofFile(given, 'acquire')
    const store = chooseSharedStore(given, context.variables)
    refuseUnwritable(file)
    return interruptibly(context.messages, `${wanted.label} was not taken`, (interruption) =>
      takeAndLeave(wanted, file, store, context, interruption),
    )
  },
}

async function takeAndLeave(
  wanted: RequestedLock,
  file: string,
  { url, namespace }: StoreChoice,
  context: CommandContext,
  interruption: Interruption,
): Promise<number> {
  const allowForce = wanted.acquire.onConflict === 'force'
  const runner = wanted.runner === undefined ? {} : { runner: wanted.runner }
  const connecting = context.connect(url, { namespace, metadata: userName(), allowForce, ...runner })
  const locks = await interruption.during(connecting)
  try {
    const lease = await takeVisibly(locks, wanted, context, interruption)
    await leave(locks, lease, file, url)
    context.print(`${lease.fence}\n`)
    context.messages.say(`${wanted.label} is yours ${untilWhen(lease)} unless you renew it`)
    return 0
  } finally {
    await locks.close()
  }
}

/** Hands the lease off to the proof file. If the file cannot be written, releases the lock: nobody could renew it. */
async function leave(locks: Locks, lease: Lease, file: string, url: string): Promise<void> {
  const proof = await lease.handOff()
  try {
    writeProof(file, proof, url)
  } catch (error) {
    const taken = await locks.resume(proof)
    await taken.release()
    throw error
  }
}

/** When a lease ends if nobody renews it: `until 20:43:12 (10 m)`. */
export function untilWhen(lease: Lease): string {
  const { ttlMs } = lease.toJSON()
  const now = new Date()
  return `until ${clockTime(new Date(now.getTime() + ttlMs), now)} (${formatDuration(ttlMs)})`
}
