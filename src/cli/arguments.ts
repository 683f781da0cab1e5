import { parseArgs } from 'node:util'
import { isDuration, unroundedMs } from '../core/time/duration.ts'
import { nearest } from '../core/contract/option-names.ts'
import { quoted } from './output/terminal-text.ts'
import { UsageError } from './exit-codes.ts'

/** The options a command knows, by their long names. */
export type OptionTable = Readonly<Record<string, OptionType>>

/** How an option is parsed, and the words that it takes, for completions. */
interface OptionType {
  readonly type: 'string' | 'boolean'
  readonly short?: string
  readonly choices?: readonly string[]
}

/** A parsed command line: the last value of each option, and the arguments that are not options. */
export interface ParsedArguments {
  readonly texts: ReadonlyMap<string, string>
  readonly flags: ReadonlySet<string>
  readonly positionals: readonly string[]
}

/** The words of `--color`. */
export const colourWords = ['auto', 'always', 'never'] as const

/** The options of commands without a store. */
export const colourOption = {
  color: { type: 'string', choices: colourWords },
  help: { type: 'boolean', short: 'h' },
} satisfies OptionTable

/** Options that every command with a store has. */
export const commonOptions = {
  store: { type: 'string' },
  namespace: { type: 'string' },
  ...colourOption,
} satisfies OptionTable

/** Splits arguments into options and positionals. An argument after `--` is never an option. */
export function parseArguments(args: readonly string[], options: OptionTable): ParsedArguments {
  const texts = new Map<string, string>()
  const flags = new Set<string>()
  const positionals: string[] = []
  for (const token of tokensOf(args, options)) {
    if (token.kind === 'positional') positionals.push(token.value)
    if (token.kind !== 'option') continue
    const { name, rawName, value } = token
    const known = Object.hasOwn(options, name) ? options[name] : undefined
    if (known === undefined) throw unknownOption(rawName, options)
    if (known.type === 'boolean') {
      if (value !== undefined) throw new UsageError(`${rawName} takes no value.`)
      flags.add(name)
    } else {
      if (value === undefined) throw new UsageError(`${rawName} needs a value.`)
      texts.set(name, value)
    }
  }
  return { texts, flags, positionals }
}

// Not strict: a value may begin with a dash (`--priority -5`), and our own errors suggest the nearest option.
function tokensOf(args: readonly string[], options: OptionTable) {
  return parseArgs({ args: [...args], options, strict: false, tokens: true, allowPositionals: true }).tokens
}

/** The index of the second positional, if there is one: if the user forgot the `--`, the command begins there. */
export function secondWordAt(args: readonly string[], options: OptionTable): number | undefined {
  return tokensOf(args, options).filter(({ kind }) => kind === 'positional')[1]?.index
}

/** The words quoted for a POSIX shell. */
export function shellWords(words: readonly string[]): string {
  return words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(' ')
}

function unknownOption(rawName: string, options: OptionTable): UsageError {
  const meant = nearest(rawName.replace(/^-+/, ''), Object.keys(options))
  const hint = meant === undefined ? '' : ` Did you mean --${meant}?`
  return new UsageError(`There is no option ${quoted(rawName)}.${hint}`)
}

/** The only positional of a command: the NAME of its lock. */
export function onlyName(given: ParsedArguments, command: string): string {
  const [name, ...more] = given.positionals
  if (name === undefined) throw new UsageError(`${command} needs the NAME of a lock.`)
  if (more.length > 0) throw new UsageError(`${command} takes one NAME; ${quoted(more[0] as string)} is one too many.`)
  return name
}

/** An option whose value is one of a few words. */
export function choiceOption<Word extends string>(
  given: ParsedArguments,
  name: string,
  words: readonly Word[],
): Word | undefined {
  const text = given.texts.get(name)
  const word = words.find((each) => each === text)
  if (text === undefined || word !== undefined) return word
  throw new UsageError(`--${name} is ${quoted(text)}. Use one of ${words.join(', ')}.`)
}

/** The smallest and the largest allowed value, both included. */
interface Bounds {
  readonly from: number
  readonly to: number
}

const dayMs = 86_400_000
/** A hundred years: a longer time is a typing error. */
const longestMs = 36_500 * dayMs

/** Bounds of a duration that may be zero. */
export const anyTime: Bounds = { from: 0, to: longestMs }
/** Bounds of a duration that must not be zero. */
export const someTime: Bounds = { from: 1, to: longestMs }

/** A duration such as `30s`, in milliseconds. A bare number is refused, because its unit would be a guess. */
export function durationOption(given: ParsedArguments, name: string, { from, to }: Bounds): number | undefined {
  const text = given.texts.get(name)
  if (text === undefined) return undefined
  const duration = /^0+$/.test(text) ? 0 : text
  if (/^\d+(\.\d+)?$/.test(text) && duration !== 0)
    throw new UsageError(`--${name} ${text} needs a unit: ${text}s, ${text}ms, ${text}m …`)
  if (duration !== 0 && !isDuration(duration))
    throw new UsageError(`--${name} is ${quoted(text)}, not a duration such as 500ms, 30s, 5m, 1h or 1m30s.`)
  // A number too large for a double becomes Infinity, and so fails the check of the bounds.
  const milliseconds = duration === 0 ? 0 : Math.round(unroundedMs(duration))
  if (milliseconds >= from && milliseconds <= to) return milliseconds
  const shortest = from === 0 ? '0' : `${from}ms`
  throw new UsageError(`--${name} is ${quoted(text)}. It goes from ${shortest} to ${to / dayMs}d.`)
}

/** An option whose value is a whole number within its bounds. */
export function numberOption(given: ParsedArguments, name: string, { from, to }: Bounds): number | undefined {
  const text = given.texts.get(name)
  if (text === undefined) return undefined
  if (!/^-?\d+$/.test(text)) throw new UsageError(`--${name} is ${quoted(text)}, not a whole number.`)
  const number = Number(text)
  if (number >= from && number <= to) return number
  throw new UsageError(`--${name} is ${quoted(text)}. It goes from ${from} to ${to}.`)
}
