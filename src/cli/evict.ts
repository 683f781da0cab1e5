import type { ClaimInfo, Locks } from '../index.ts'
import { commonOptions, numberOption, onlyName } from './arguments.ts'
import type { Command, Surroundings } from './command.ts'
import { exitCodes } from './exit-codes.ts'
import { describeRunner, describeSince } from './holder-text.ts'
import { storeHelp, withLocks } from './store.ts'
import { quoted } from './terminal-text.ts'
import { UsageError } from './usage-error.ts'

const help = `Usage: leasehold evict NAME --reason TEXT [options]

Takes the lock NAME from whoever holds it, at once. The holder is told, with the reason, but it may still be writing:
only its fence protects what it writes to. Asks first; where there is no terminal to ask at, it needs --yes.

Options:
  --reason TEXT       told to the holder
  --fence N           only the holder with this fence
  -y, --yes           do not ask
${storeHelp}

Exit codes: 0 evicted, 1 nobody held it or you said no, 64 wrong use, 69 the store cannot be reached

Examples:
  leasehold evict nightly --reason 'host is gone'
  leasehold evict nightly --fence 118 --reason 'stuck for an hour' --yes
`

export const evict: Command = {
  name: 'evict',
  summary: 'take a lock from its holder',
  help,
  options: {
    ...commonOptions,
    reason: { type: 'string' },
    fence: { type: 'string' },
    yes: { type: 'boolean', short: 'y' },
  },
  async run(given, surroundings) {
    const name = onlyName(given, 'evict')
    const reason = given.texts.get('reason') ?? ''
    if (reason === '') throw new UsageError('evict needs --reason TEXT: it is told to the holder.')
    const fence = numberOption(given, 'fence')
    const isAgreed = given.flags.has('yes')
    if (!isAgreed && surroundings.ask === undefined) {
      throw new UsageError('evict takes a lock from a live holder. There is no terminal to ask at: say --yes.')
    }
    return withLocks(given, surroundings, { allowForce: true }, async (locks) => {
      const holders = (await locks.inspect(name))?.holders ?? []
      const chosen = fence === undefined ? holders : holders.filter((holder) => holder.fence === fence)
      if (chosen.length === 0) return nobody(name, fence, surroundings)
      const { say } = surroundings.messages
      for (const holder of chosen) say(`${quoted(name)} is held by ${describeHolder(holder)}`)
      say('the holder is told, but may still be writing; only its fence protects what it writes to')
      if (!isAgreed && !(await agrees(surroundings))) return exitCodes.nobodyHeldIt
      return evictAll(locks, name, chosen, reason, surroundings)
    })
  },
}

async function agrees({ ask }: Surroundings): Promise<boolean> {
  const answer = (await ask?.('leasehold: take it away? [y/N] ')) ?? ''
  return /^y(es)?$/i.test(answer.trim())
}

/** Evicts those that were shown, by their fences, and nobody who has come since. */
async function evictAll(
  locks: Locks,
  name: string,
  holders: readonly ClaimInfo[],
  reason: string,
  surroundings: Surroundings,
): Promise<number> {
  let evicted = 0
  for (const { fence } of holders) {
    const count = await locks.evict(name, { reason, fence })
    if (count > 0) surroundings.print(`evicted fence ${fence} from ${quoted(name)}\n`)
    evicted += count
  }
  return evicted === 0 ? nobody(name, undefined, surroundings) : 0
}

function nobody(name: string, fence: number | undefined, { messages }: Surroundings): number {
  messages.say(`nobody holds ${quoted(name)}${fence === undefined ? '' : ` with fence ${fence}`}`)
  return exitCodes.nobodyHeldIt
}

function describeHolder(holder: ClaimInfo): string {
  const since = describeSince(holder.acquiredAt ?? holder.enteredAt, new Date())
  return `${describeRunner(holder.runner)} since ${since}, fence ${holder.fence}`
}
