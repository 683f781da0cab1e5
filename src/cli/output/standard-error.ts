import { write, writeSync } from 'node:fs'
import { Writable } from 'node:stream'
import { isatty } from 'node:tty'

/** Our standard error: text is written at once, or in order and aside where nothing may wait for a reader. */
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

/** Writes in another thread, which may wait. */
function writeAside(text: string): Promise<void> {
  return new Promise((resolve) => write(2, text, () => resolve()))
}

/** Writes at once. Nobody may be listening any more: that is no reason to fail. */
function writeError(text: string): void {
  try {
    writeSync(2, text)
  } catch {
    // Closed, or full and not being read.
  }
}

/**
 * Puts something else in the place of `process.stderr`, unless that is a terminal. Node looks at it whenever a socket ends,
 * and looking makes a pipe non-blocking, for everybody who shares it: a command that prints faster than it is read would
 * lose what it prints.
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
