let isUsed = false

/** Writes to standard output. A reader that has seen enough (`| head`) ends us quietly. */
export function print(text: string): void {
  if (!isUsed) process.stdout.on('error', () => process.exit())
  isUsed = true
  process.stdout.write(text)
}

/** Ends the process once all that was printed is out: nothing that is left may delay it. */
export function finish(exitCode: number): void {
  // Looking at process.stdout would make a pipe that the command shared with us non-blocking.
  if (isUsed) process.stdout.write('', () => process.exit(exitCode))
  else process.exit(exitCode)
}
