import { version } from '../index.ts'
import { plainMessageOf } from '../core/errors.ts'
import {
  choiceOption,
  colourWords,
  parseArguments,
  secondWordAt,
  shellWords,
  type ParsedArguments,
} from './arguments.ts'
import type { Command, CommandContext, ProcessContext } from './command.ts'
import { acquireCommand } from './commands/acquire.ts'
import { benchCommand } from './commands/bench.ts'
import { completionCommand } from './commands/completion.ts'
import { doctorCommand } from './commands/doctor.ts'
import { electCommand } from './commands/elect.ts'
import { evictCommand } from './commands/evict.ts'
import { exitCodeOf, UsageError } from './exit-codes.ts'
import { explainCommand } from './commands/explain.ts'
import { lsCommand } from './commands/ls.ts'
import { manCommand } from './commands/man.ts'
import { releaseCommand } from './commands/release.ts'
import { renewCommand } from './commands/renew.ts'
import { runCommand } from './commands/run.ts'
import { serveCommand } from './commands/serve.ts'
import { nearest } from '../core/contract/option-names.ts'
import { renderLine, wantsColour, wantsSymbols, type Line, type Look } from './output/style.ts'
import { printableLines, quoted } from './output/terminal-text.ts'
import { watchCommand } from './commands/watch.ts'

/** Every command, in the order of the help. */
export const commands: readonly Command[] = [
  runCommand,
  electCommand,
  acquireCommand,
  renewCommand,
  releaseCommand,
  lsCommand,
  explainCommand,
  watchCommand,
  evictCommand,
  doctorCommand,
  benchCommand,
  serveCommand,
  completionCommand(() => commands),
  manCommand(() => commands),
]

const help = `Usage: leasehold COMMAND [options]

Locks held on a lease: yours while you renew them, the next holder's when you stop.

Commands:
${commands.map(({ name, summary }) => `  ${name.padEnd(12)}${summary}`).join('\n')}

leasehold COMMAND --help shows a command's options. leasehold --version shows the version.

Examples:
  leasehold run nightly -- ./backup.sh
  leasehold elect scheduler -- ./scheduler
  leasehold ls
  leasehold explain
  leasehold watch
  leasehold evict nightly --reason 'host is gone'
`

/** Runs one command line and resolves to its exit code. Never rejects. */
export async function runCommandLine(args: readonly string[], given: ProcessContext): Promise<number> {
  // The last line of defence: text from a store never reaches the terminal as escape sequences.
  const context: ProcessContext = { ...given, print: (text) => given.print(printableLines(text)) }
  const [word, ...rest] = args
  try {
    if (word === '--version' || word === '-V') return show(`${version}\n`, context)
    if (word === '--help' || word === '-h' || word === 'help') return helpFor(rest, context)
    return await dispatch(findCommand(word), rest, context, given.print)
  } catch (error) {
    // Print the message without its error code: programs read the exit code.
    context.messages.say(plainMessageOf(error))
    const about = commands.some(({ name }) => name === word) ? `${word} ` : ''
    if (error instanceof UsageError) context.messages.say(`see leasehold ${about}--help`)
    return exitCodeOf(error)
  }
}

async function dispatch(
  command: Command,
  args: readonly string[],
  context: ProcessContext,
  print: ProcessContext['print'],
): Promise<number> {
  const { name, options, takesCommand = false } = command
  const end = takesCommand ? args.indexOf('--') : -1
  const forgotAt = takesCommand && end < 0 ? secondWordAt(args, options) : undefined
  const own = args.slice(0, end < 0 ? forgotAt : end)
  const given = parseArguments(own, options)
  if (given.flags.has('help')) return show(command.help, context)
  if (forgotAt !== undefined) {
    const instead = `${shellWords(own)} -- ${shellWords(args.slice(forgotAt))}`
    throw new UsageError(`${name} needs -- before the COMMAND: leasehold ${name} ${instead}`)
  }
  return command.run({ ...given, command: end < 0 ? [] : args.slice(end + 1) }, withLook(given, context, print))
}

/** Adds the styled output. `print` writes as it is told: rendering has made the texts safe. */
function withLook(given: ParsedArguments, context: ProcessContext, print: ProcessContext['print']): CommandContext {
  const { variables, terminal } = context
  const isTerminal = terminal !== undefined
  const colour = wantsColour(readColour(given), variables, isTerminal)
  const symbols = wantsSymbols(variables, isTerminal)
  // The width is read with each use: the user may resize the terminal.
  const look: Look = {
    colour,
    symbols,
    get columns() {
      return terminal?.size().columns
    },
  }
  const write = (lines: readonly Line[], columns: number | undefined): void =>
    print(lines.map((line) => `${renderLine(line, { colour, columns })}\n`).join(''))
  return {
    ...context,
    look,
    printLines: (lines) => write(lines, look.columns),
    printText: (lines) => write(lines, undefined),
  }
}

function readColour(given: ParsedArguments): (typeof colourWords)[number] {
  return choiceOption(given, 'color', colourWords) ?? 'auto'
}

function helpFor([topic]: readonly string[], context: ProcessContext): number {
  return show(topic === undefined ? help : findCommand(topic).help, context)
}

function findCommand(word: string | undefined): Command {
  if (word === undefined) {
    const names = commands.map(({ name }) => name).join(', ')
    throw new UsageError(`Name a command: ${names}. To begin: leasehold run demo -- sleep 30 & leasehold ls`)
  }
  const found = commands.find(({ name }) => name === word)
  if (found !== undefined) return found
  if (word.startsWith('-')) throw new UsageError(`There is no option ${quoted(word)}. Options follow the command.`)
  const meant = nearest(
    word,
    commands.map(({ name }) => name),
  )
  const hint = meant === undefined ? '' : ` Did you mean ${meant}?`
  throw new UsageError(`There is no command ${quoted(word)}.${hint}`)
}

function show(text: string, { print }: ProcessContext): number {
  print(text)
  return 0
}
