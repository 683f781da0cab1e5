import { version } from '../index.ts'
import { plainMessageOf } from '../core/errors.ts'
import { parseArguments, secondWordAt, shellWords } from './arguments.ts'
import type { Command, CommandContext } from './command.ts'
import { acquireCommand } from './commands/acquire.ts'
import { benchCommand } from './commands/bench.ts'
import { doctorCommand } from './commands/doctor.ts'
import { electCommand } from './commands/elect.ts'
import { evictCommand } from './commands/evict.ts'
import { exitCodeOf, UsageError } from './exit-codes.ts'
import { explainCommand } from './commands/explain.ts'
import { lsCommand } from './commands/ls.ts'
import { releaseCommand } from './commands/release.ts'
import { renewCommand } from './commands/renew.ts'
import { runCommand } from './commands/run.ts'
import { serveCommand } from './commands/serve.ts'
import { nearest } from '../core/contract/option-names.ts'
import { printableLines, quoted } from './output/terminal-text.ts'
import { watchCommand } from './commands/watch.ts'

const commands: readonly Command[] = [
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
]

const help = `Usage: leasehold COMMAND [options]

Locks held on a lease: yours while you renew them, the next holder's when you stop.

Commands:
${commands.map(({ name, summary }) => `  ${name.padEnd(10)}${summary}`).join('\n')}

leasehold COMMAND --help shows a command's options. leasehold --version shows the version.

Examples:
  leasehold run nightly -- ./backup.sh
  leasehold elect scheduler -- ./scheduler
  leasehold ls
  leasehold explain nightly
  leasehold evict nightly --reason 'host is gone'
`

/** Runs one command line and resolves to its exit code. Never rejects. */
export async function runCommandLine(args: readonly string[], given: CommandContext): Promise<number> {
  // The last line of defence: text from a store never reaches the terminal as escape sequences.
  const context: CommandContext = { ...given, print: (text) => given.print(printableLines(text)) }
  const [word, ...rest] = args
  try {
    if (word === '--version' || word === '-V') return show(`${version}\n`, context)
    if (word === '--help' || word === '-h' || word === 'help') return helpFor(rest, context)
    return await dispatch(findCommand(word), rest, context)
  } catch (error) {
    // Print the message without its error code: programs read the exit code.
    context.messages.say(plainMessageOf(error))
    const about = commands.some(({ name }) => name === word) ? `${word} ` : ''
    if (error instanceof UsageError) context.messages.say(`see leasehold ${about}--help`)
    return exitCodeOf(error)
  }
}

async function dispatch(command: Command, args: readonly string[], context: CommandContext): Promise<number> {
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
  return command.run({ ...given, command: end < 0 ? [] : args.slice(end + 1) }, context)
}

function helpFor([topic]: readonly string[], context: CommandContext): number {
  return show(topic === undefined ? help : findCommand(topic).help, context)
}

function findCommand(word: string | undefined): Command {
  if (word === undefined) throw new UsageError(`Name a command: ${commands.map(({ name }) => name).join(', ')}.`)
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

function show(text: string, { print }: CommandContext): number {
  print(text)
  return 0
}
