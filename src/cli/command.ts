import type { connect } from '../index.ts'
import type { ParsedArguments, OptionTable } from './arguments.ts'
import type { Messages } from './output/messages.ts'

/** What a command takes from the process it runs in. */
export interface CommandContext {
  readonly variables: Readonly<Record<string, string | undefined>>
  readonly messages: Messages
  /** Standard output. What could steer a terminal is written out, but for the ends of lines. */
  readonly print: (text: string) => void
  readonly connect: typeof connect
  /** Asks the person at the terminal; undefined where there is none. */
  readonly ask: ((question: string) => Promise<string>) | undefined
}

/** One word of the command line. */
export interface Command {
  readonly name: string
  /** For the list of commands. */
  readonly summary: string
  readonly help: string
  readonly options: OptionTable
  /** True: `--` ends its own arguments, and what follows is a command to run. */
  readonly takesCommand?: boolean
  /** Gives the exit code. */
  run(given: ParsedArguments & { readonly command: readonly string[] }, context: CommandContext): Promise<number>
}
