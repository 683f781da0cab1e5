import type { connect } from '../index.ts'
import type { ParsedArguments, OptionTable } from './arguments.ts'
import type { Messages } from './output/messages.ts'
import type { Line, Look } from './output/style.ts'
import type { Terminal } from './screen/terminal.ts'

/** The process that runs a command line: tests replace each part. */
export interface ProcessContext {
  readonly variables: Readonly<Record<string, string | undefined>>
  readonly messages: Messages
  /** Writes to standard output. Control characters are escaped, except line breaks. */
  readonly print: (text: string) => void
  /** Resolves once the reader has taken what was printed, or most of it: a command that prints much waits for its reader. */
  readonly drained: () => Promise<void>
  readonly connect: typeof connect
  /** Asks the user at the terminal; undefined without a terminal. */
  readonly ask: ((question: string) => Promise<string>) | undefined
  /** The terminal of standard output; undefined if it goes elsewhere. */
  readonly terminal?: Terminal | undefined
}

/** The process as a command sees it, once its options are known. */
export interface CommandContext extends ProcessContext {
  readonly look: Look
  /** Writes the lines of a table to standard output, coloured and cut as `look` says. Texts in them cannot steer the terminal. */
  readonly printLines: (lines: readonly Line[]) => void
  /** The same for sentences, which are never cut. */
  readonly printText: (lines: readonly Line[]) => void
}

/** A subcommand of `leasehold`. */
export interface Command {
  readonly name: string
  /** One line for the list of commands. */
  readonly summary: string
  readonly help: string
  readonly options: OptionTable
  /** Whether `--` ends its own arguments and begins a command to run. */
  readonly takesCommand?: boolean
  /** Resolves to the exit code. */
  run(given: ParsedArguments & { readonly command: readonly string[] }, context: CommandContext): Promise<number>
}
