import { createInterface } from 'node:readline/promises'

/** Asks the user on standard error. Resolves to an empty answer if the input ends. */
export async function askAtTerminal(question: string): Promise<string> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr })
  const endLine = (): void => void process.stderr.write('\n')
  const ended = new Promise<string>((resolve) => terminal.once('close', () => resolve('')))
  terminal.once('close', endLine)
  // In raw mode Ctrl-C is a key: turn it into the signal.
  terminal.once('SIGINT', () => {
    endLine()
    process.kill(process.pid, 'SIGINT')
  })
  try {
    return await Promise.race([terminal.question(question), ended])
  } finally {
    terminal.off('close', endLine)
    terminal.close()
  }
}
