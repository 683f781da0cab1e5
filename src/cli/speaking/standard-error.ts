import { writeSync } from 'node:fs'
import { Writable } from 'node:stream'

/** Writes at once. Nobody may be listening any more: that is no reason to fail. */
export function writeError(text: string): void {
  try {
    writeSync(2, text)
  } catch {
    // Closed, or full and not being read.
  }
}

/**
 * Puts something else in the place of `process.stderr`. Node looks at that whenever a socket ends, and looking makes a pipe
 * non-blocking, for everybody who shares it: a command that prints faster than it is read would lose what it prints.
 */
export function replaceStandardError(): void {
  const stream = new Writable({
    decodeStrings: false,
    write(chunk: string | Buffer, _encoding, done) {
      writeError(String(chunk))
      done()
    },
  })
  Object.defineProperty(process, 'stderr', { configurable: true, enumerable: true, value: stream })
}
