import { write, writeSync } from 'node:fs'
import { Writable } from 'node:stream'
import { isatty } from 'node:tty'

/** Our standard error. Writes synchronously, or, inside `withoutWaiting`, in order in the background. */
export class StandardError {
  #mayWait = true
  #unwritten = 0
  #written = Promise.resolve()

  readonly write = (text: string): void => {
    if (this.#mayWait && this.#unwritten === 0) return writeError(text)
    this.#unwritten += 1
    this.#written = this.#written.then(() => writeAside(text)).then(() => void (this.#unwritten -= 1))
  }

  readonly withoutWaiting = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    this.#mayWait = false
    try {
      return await work()
    } finally {
      this.#mayWait = true
    }
  }

  readonly written = (): Promise<void> => this.#written
}

/** Writes in a thread of the pool, which may block. */
function writeAside(text: string): Promise<void> {
  return new Promise((resolve) => write(2, text, () => resolve()))
}

/** Writes synchronously. A closed standard error is no reason to fail. */
function writeError(text: string): void {
  try {
    writeSync(2, text)
  } catch {
    // Closed, or full because nobody reads it.
  }
}

/**
 * Replaces `process.stderr` unless it is a terminal. Node opens it whenever a socket ends, and that makes a pipe non-blocking
 * for every process that shares it: a command that prints faster than its reader reads would lose output.
 */
export function replaceStandardError(): void {
  if (isatty(2)) return
  const stream = new Writable({
    decodeStrings: false,
    write(chunk: string | Buffer, _encoding, done) {
      writeError(String(chunk))
      done()
    },
  })
  Object.defineProperty(process, 'stderr', { configurable: true, enumerable: true, value: stream })
}
