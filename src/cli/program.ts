import { isatty } from 'node:tty'
import { connect } from '../index.ts'
import { runCommandLine } from './command-line.ts'
import { standardErrorMessages } from './output/messages.ts'
import { askAtTerminal } from './output/question.ts'
import { standardOutput } from './output/standard-output.ts'
import { ProcessTerminal } from './screen/terminal.ts'

/** Runs the command line of this process, and ends the process with its exit code. */
export async function runProgram(): Promise<void> {
  const messages = standardErrorMessages()
  const { print, drained, finish } = standardOutput(messages)
  const exitCode = await runCommandLine(process.argv.slice(2), {
    variables: process.env,
    messages,
    print,
    drained,
    connect,
    ask: isatty(0) && isatty(2) ? askAtTerminal : undefined,
    terminal: outputTerminal(),
  })
  await messages.written()
  finish(exitCode)
}

/** The terminal of standard output. Its streams are opened with their first use: a supervised command shares them. */
function outputTerminal(): ProcessTerminal | undefined {
  if (!isatty(1)) return undefined
  return new ProcessTerminal(
    () => process.stdout,
    () => (isatty(0) ? process.stdin : undefined),
  )
}
