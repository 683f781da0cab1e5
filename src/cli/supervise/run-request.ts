import type { AcquireOptions, ConflictStrategy } from '../../index.ts'
import {
  anyTime,
  commonOptions,
  durationOption,
  numberOption,
  onlyName,
  someTime,
  type ParsedArguments,
  type OptionTable,
} from '../arguments.ts'
import { kindOption, readTarget, type Target } from '../output/lock-name.ts'
import { quoted } from '../output/terminal-text.ts'
import { UsageError } from '../exit-codes.ts'

/** Which lock to take, and with which options. */
export interface RequestedLock extends Target {
  readonly acquire: AcquireOptions
  /** Whether to hold it together with other shared holders. */
  readonly shared: boolean
  /** How many may hold it at once; undefined: not a semaphore. */
  readonly permits: number | undefined
  /** A runner name that is the same after a restart. */
  readonly runner: string | undefined
  /** Whether to say nothing about waiting. */
  readonly quiet: boolean
}

/** The arguments of `leasehold run` or `elect`. */
export interface RunRequest extends RequestedLock {
  readonly command: string
  readonly commandArguments: readonly string[]
  readonly killAfterMs: number
}

const priorityWords = ['low', 'normal', 'high'] as const
const strategies: readonly ConflictStrategy[] = ['wait', 'fail', 'steal-stale', 'preempt', 'reclaim', 'force']

/** The options of `leasehold run`. */
export const runOptions = {
  ...commonOptions,
  ...kindOption,
  ttl: { type: 'string' },
  wait: { type: 'string' },
  'no-wait': { type: 'boolean' },
  priority: { type: 'string', choices: priorityWords },
  'max-hold': { type: 'string' },
  'on-conflict': { type: 'string', choices: strategies },
  'stale-after': { type: 'string' },
  runner: { type: 'string' },
  shared: { type: 'boolean' },
  permits: { type: 'string' },
  'kill-after': { type: 'string' },
  quiet: { type: 'boolean', short: 'q' },
} satisfies OptionTable

/** The help of the conflict options. */
export const conflictHelp = `  --on-conflict WHAT  wait, fail, steal-stale, preempt, reclaim or force
  --stale-after DURATION
                      with steal-stale: how long the holder must have been silent; default 2.5 heartbeats
  --runner NAME       a name that stays the same after a restart, on this machine: reclaim then takes its lock back`

const killAfterDefaultMs = 5000

/** Reads the arguments of the command `word`: `run` or `elect`. */
export function readRunRequest(
  word: string,
  given: ParsedArguments & { readonly command: readonly string[] },
): RunRequest {
  const { name, command } = nameAndCommand(word, given)
  return {
    ...readRequestedLock(word, name, given),
    command: command[0] as string,
    commandArguments: command.slice(1),
    killAfterMs: durationOption(given, 'kill-after', anyTime) ?? killAfterDefaultMs,
  }
}

/** Reads the lock options. Refuses what no store supports before any store is opened. */
export function readRequestedLock(word: string, name: string, given: ParsedArguments): RequestedLock {
  const ttl = durationOption(given, 'ttl', someTime)
  const isPatient = !given.flags.has('no-wait')
  if (!isPatient && given.texts.has('wait'))
    throw new UsageError(`${word} takes --wait DURATION or --no-wait, not both.`)
  const wait = isPatient ? durationOption(given, 'wait', anyTime) : 0
  const maxHold = durationOption(given, 'max-hold', someTime)
  const priority = readPriority(given)
  const onConflict = readStrategy(given)
  const staleAfter = durationOption(given, 'stale-after', someTime)
  const runner = given.texts.get('runner')
  const permits = numberOption(given, 'permits', { from: 1, to: Number.MAX_SAFE_INTEGER })
  const shared = given.flags.has('shared')
  if (shared && permits !== undefined) {
    throw new UsageError(`${word} takes --shared, for as many as want it, or --permits N, not both.`)
  }
  if (staleAfter !== undefined && onConflict !== 'steal-stale') {
    throw new UsageError('--stale-after says when to steal: it goes with --on-conflict steal-stale.')
  }
  if (onConflict === 'reclaim' && runner === undefined) {
    throw new UsageError('--on-conflict reclaim needs --runner NAME: it takes back what that runner held before.')
  }
  return {
    ...readTarget(given, name),
    acquire: {
      ...(ttl !== undefined && { ttl }),
      ...(wait !== undefined && { wait }),
      ...(maxHold !== undefined && { maxHold }),
      ...(priority !== undefined && { priority }),
      ...(onConflict !== undefined && { onConflict }),
      ...(staleAfter !== undefined && { staleAfter }),
    },
    shared,
    permits,
    runner,
    quiet: given.flags.has('quiet'),
  }
}

function readStrategy(given: ParsedArguments): ConflictStrategy | undefined {
  const text = given.texts.get('on-conflict')
  const strategy = strategies.find((each) => each === text)
  if (text === undefined || strategy !== undefined) return strategy
  throw new UsageError(`--on-conflict is ${quoted(text)}. Use one of ${strategies.join(', ')}.`)
}

function readPriority(given: ParsedArguments): AcquireOptions['priority'] {
  const text = given.texts.get('priority')
  const word = priorityWords.find((each) => each === text)
  return word ?? numberOption(given, 'priority', { from: -1000, to: 1000 })
}

/** `NAME -- COMMAND`, or `-- NAME -- COMMAND` for a name that begins with a dash. */
function nameAndCommand(
  word: string,
  given: ParsedArguments & { readonly command: readonly string[] },
): {
  name: string
  command: readonly string[]
} {
  if (given.positionals.length === 0) {
    const [dashed, separator, ...command] = given.command
    if (dashed !== undefined && separator === '--') return checked(word, dashed, command)
    throw new UsageError(`${word} needs a NAME: leasehold ${word} NAME -- COMMAND`)
  }
  return checked(word, onlyName(given, word), given.command)
}

function checked(word: string, name: string, command: readonly string[]): { name: string; command: readonly string[] } {
  if (command.length > 0 && command[0] !== '') return { name, command }
  throw new UsageError(`${word} needs a COMMAND after --: leasehold ${word} ${name} -- COMMAND`)
}
