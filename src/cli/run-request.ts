import { durationMs } from '../core/duration.ts'
import type { AcquireOptions, ConflictStrategy } from '../index.ts'
import { commonOptions, durationOption, numberOption, type Given, type OptionTable } from './arguments.ts'
import { UsageError } from './usage-error.ts'

/** What `leasehold run` was asked to do. */
export interface RunRequest {
  readonly name: string
  readonly command: string
  readonly commandArguments: readonly string[]
  readonly acquire: AcquireOptions
  /** Held together with others that share it too. */
  readonly shared: boolean
  /** Held by so many at once. */
  readonly permits: number | undefined
  readonly killAfterMs: number
  readonly quiet: boolean
}

export const runOptions = {
  ...commonOptions,
  ttl: { type: 'string' },
  wait: { type: 'string' },
  'no-wait': { type: 'boolean' },
  priority: { type: 'string' },
  'max-hold': { type: 'string' },
  'on-conflict': { type: 'string' },
  shared: { type: 'boolean' },
  permits: { type: 'string' },
  'kill-after': { type: 'string' },
  quiet: { type: 'boolean', short: 'q' },
} satisfies OptionTable

const killAfterDefaultMs = 5000

/** Reads the arguments of `run`. What the options may be is for the API to say. */
export function readRunRequest(given: Given & { readonly command: readonly string[] }): RunRequest {
  const { name, command } = nameAndCommand(given)
  const ttl = durationOption(given, 'ttl')
  const wait = given.flags.has('no-wait') ? 0 : durationOption(given, 'wait')
  const maxHold = durationOption(given, 'max-hold')
  const killAfter = durationOption(given, 'kill-after')
  const priority = given.texts.get('priority')
  const onConflict = given.texts.get('on-conflict')
  const permits = numberOption(given, 'permits')
  const shared = given.flags.has('shared')
  if (shared && permits !== undefined) {
    throw new UsageError('run takes --shared, for as many as want it, or --permits N, not both.')
  }
  return {
    name,
    command: command[0] as string,
    commandArguments: command.slice(1),
    acquire: {
      ...(ttl !== undefined && { ttl }),
      ...(wait !== undefined && { wait }),
      ...(maxHold !== undefined && { maxHold }),
      ...(priority !== undefined && { priority: readPriority(priority) }),
      ...(onConflict !== undefined && { onConflict: onConflict as ConflictStrategy }),
    },
    shared,
    permits,
    killAfterMs: killAfter === undefined ? killAfterDefaultMs : durationMs(killAfter, 'kill-after'),
    quiet: given.flags.has('quiet'),
  }
}

function readPriority(text: string): NonNullable<AcquireOptions['priority']> {
  return /^-?\d+$/.test(text) ? Number(text) : (text as 'normal')
}

/** `NAME -- COMMAND`, or `-- NAME -- COMMAND` for a name that begins with a dash. */
function nameAndCommand(given: { readonly positionals: readonly string[]; readonly command: readonly string[] }): {
  name: string
  command: readonly string[]
} {
  const [name, ...more] = given.positionals
  if (name === undefined) {
    const [dashed, separator, ...command] = given.command
    if (dashed !== undefined && separator === '--') return checked(dashed, command)
    throw new UsageError('run needs the NAME of a lock: leasehold run NAME -- COMMAND')
  }
  if (more.length > 0) {
    throw new UsageError(`run needs -- between the NAME and the COMMAND: leasehold run ${name} -- ${more.join(' ')}`)
  }
  return checked(name, given.command)
}

function checked(name: string, command: readonly string[]): { name: string; command: readonly string[] } {
  if (command.length > 0 && command[0] !== '') return { name, command }
  throw new UsageError(`run needs a COMMAND after --: leasehold run ${name} -- COMMAND`)
}
