import type { ClaimInfo, Locks } from '../../index.ts'
import { commonOptions, numberOption, onlyName } from '../arguments.ts'
import type { Command, CommandContext } from '../command.ts'
import { exitCodes, UsageError } from '../exit-codes.ts'
import { runnerText, describeSince } from '../output/holder-text.ts'
import { interruptibly } from '../interruption.ts'
import { kindHelp, kindOption, readTarget, type Target } from '../output/lock-name.ts'
import { storeHelp, withLocks } from '../stores/store.ts'

const help = `Usage: leasehold evict NAME --reason TEXT [options]

Takes the lock NAME from its holder at once; for an inode or a range, from all holders of any part of it. The holder is
told the reason, but it may still be writing: only its fence protects what it writes to. Asks for confirmation; without
a terminal it needs --yes.

Options:
  --reason TEXT       the reason that the holder is told
  --fence N           only the holder with this fence
  -y, --yes           do not ask
${kindHelp}
${storeHelp}

Exit codes: 0 evicted, 1 nobody held it or you said no, 64 wrong use, 69 the store cannot be reached

Examples:
  leasehold evict nightly --reason 'host is gone'
  leasehold evict nightly --fence 118 --reason 'stuck for an hour' --yes
`

/** `leasehold evict` */
export const evictCommand: Command = {
  name: 'evict',
  summary: 'take a lock from its holder',
  help,
  options: {
    ...commonOptions,
    ...kindOption,
    reason: { type: 'string' },
    fence: { type: 'string' },
    yes: { type: 'boolean', short: 'y' },
  },
  async run(given, context) {
    const target = readTarget(given, onlyName(given, 'evict'))
    const reason = given.texts.get('reason') ?? ''
    if (reason === '') throw new UsageError('evict needs --reason TEXT: the holder is told the reason.')
    const fence = numberOption(given, 'fence', { from: 1, to: Number.MAX_SAFE_INTEGER })
    const isAgreed = given.flags.has('yes')
    if (!isAgreed && context.ask === undefined) {
      throw new UsageError('evict takes a lock from a live holder. There is no terminal to confirm it at: add --yes.')
    }
    const { say } = context.messages
    return interruptibly(context.messages, 'nothing was taken away', (interruption) => {
      const connect: CommandContext['connect'] = (...where) => interruption.during(context.connect(...where))
      return withLocks(given, { ...context, connect }, { allowForce: true }, async (locks) => {
        const holders = (await interruption.during(locks.inspect(target.scope)))?.holders ?? []
        const chosen = fence === undefined ? holders : holders.filter((holder) => holder.fence === fence)
        if (chosen.length === 0) return nobody(target, fence, context)
        for (const holder of chosen) say(`${target.label} is held by ${describeHolder(holder)}`)
        say('the holder is told, but may still be writing; only its fence protects what it writes to')
        if (!isAgreed && !(await interruption.during(agrees(context)))) return exitCodes.nobodyHeldIt
        return evictAll(locks, target, chosen, reason, context)
      })
    })
  },
}

async function agrees({ ask }: CommandContext): Promise<boolean> {
  const answer = (await ask?.('leasehold: take it away? [y/N] ')) ?? ''
  return /^y(es)?$/i.test(answer.trim())
}

/** Evicts the holders that were shown, by their fences, and no holder that came later. */
async function evictAll(
  locks: Locks,
  target: Target,
  holders: readonly ClaimInfo[],
  reason: string,
  context: CommandContext,
): Promise<number> {
  let evicted = 0
  for (const { fence } of holders) {
    const count = await locks.evict(target.scope, { reason, fence })
    if (count > 0) context.print(`evicted fence ${fence} from ${target.label}\n`)
    evicted += count
  }
  return evicted === 0 ? nobody(target, undefined, context) : 0
}

function nobody({ label }: Target, fence: number | undefined, { messages }: CommandContext): number {
  messages.say(`nobody holds ${label}${fence === undefined ? '' : ` with fence ${fence}`}`)
  return exitCodes.nobodyHeldIt
}

function describeHolder(holder: ClaimInfo): string {
  const since = describeSince(holder.acquiredAt ?? holder.enteredAt, new Date())
  return `${runnerText(holder.runner)} since ${since}, fence ${holder.fence}`
}
