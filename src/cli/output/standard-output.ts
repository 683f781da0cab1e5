import { exitCodes } from '../exit-codes.ts'
import type { Messages } from './messages.ts'

/** What a command prints for programs. */
export interface StandardOutput {
  /** Writes to standard output. A reader that has seen enough (`| head`) ends us quietly; other failures are told. */
  readonly print: (text: string) => void
  /** Ends the process once all that was printed is out: nothing that is left may delay it. */
  readonly finish: (exitCode: number) => void
}

export function standardOutput({ say }: Messages): StandardOutput {
  let isUsed = false
  const end = (error: NodeJS.ErrnoException | null | undefined, exitCode: number): void => {
    if (error === null || error === undefined || error.code === 'EPIPE') process.exit(exitCode)
    say(`what was to be printed could not be written: ${error.message}`)
    process.exit(exitCodes.outputLost)
  }
  return {
    print(text) {
      if (!isUsed) process.stdout.on('error', (error) => end(error, 0))
      isUsed = true
      process.stdout.write(text)
    },
    finish(exitCode) {
      // Looking at process.stdout would make a pipe that the command shared with us non-blocking.
      if (isUsed) process.stdout.write('', (error) => end(error, exitCode))
      else process.exit(exitCode)
    },
  }
}
