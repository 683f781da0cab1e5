import { once } from 'node:events'
import { exitCodes } from '../exit-codes.ts'
import type { Messages } from './messages.ts'

/** The standard output of a command, for programs to read. */
export interface StandardOutput {
  /** Writes to standard output. If the reader closes it (`| head`), exits quietly; reports other failures. */
  readonly print: (text: string) => void
  /** Resolves once there is room for more output. */
  readonly drained: () => Promise<void>
  /** Ends the process once all output is written, whatever else is still running. */
  readonly finish: (exitCode: number) => void
}

/** The output of this process. */
export function standardOutput({ say }: Messages): StandardOutput {
  let isUsed = false
  const end = (error: NodeJS.ErrnoException | null | undefined, exitCode: number): void => {
    if (error === null || error === undefined || error.code === 'EPIPE') process.exit(exitCode)
    say(`standard output could not be written: ${error.message}`)
    process.exit(exitCodes.outputLost)
  }
  return {
    print(text) {
      if (!isUsed) process.stdout.on('error', (error) => end(error, 0))
      isUsed = true
      process.stdout.write(text)
    },
    async drained() {
      if (isUsed && process.stdout.writableNeedDrain) await once(process.stdout, 'drain')
    },
    finish(exitCode) {
      // Opening process.stdout would make the pipe that we share with the command non-blocking.
      if (isUsed) process.stdout.write('', (error) => end(error, exitCode))
      else process.exit(exitCode)
    },
  }
}
