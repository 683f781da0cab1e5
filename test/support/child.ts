import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'

/** A child process of a test: a program of `test/children/`, built by the test command. */
export class Child {
  readonly process: ChildProcess
  readonly lines: string[] = []
  /** The child's standard error. */
  complaints = ''
  readonly #ended: Promise<number | string>
  /** True once the child has ended and all its output has been read. */
  #isClosed = false
  #wake: (() => void) | undefined

  constructor(program: string, parameters: readonly string[], environment: NodeJS.ProcessEnv = {}) {
    this.process = spawn(process.execPath, [`.build/test/children/${program}.js`, ...parameters], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...environment },
    })
    this.process.stderr?.setEncoding('utf8').on('data', (text: string) => (this.complaints += text))
    const reader = createInterface({ input: this.process.stdout as NodeJS.ReadableStream })
    reader.on('line', (line) => {
      this.lines.push(line)
      this.#wake?.()
    })
    this.#ended = once(this.process, 'close').then(([code, signal]) => (code ?? signal) as number | string)
    this.process.once('close', () => {
      this.#isClosed = true
      this.#wake?.()
    })
  }

  /** Resolves with the first line of its output that matches; rejects if the child ends without one. */
  async line(pattern: RegExp): Promise<string> {
    for (;;) {
      const found = this.lines.find((line) => pattern.test(line))
      if (found !== undefined) return found
      if (this.#isClosed) {
        throw new Error(`The child ended without ${String(pattern)}:\n${this.lines.join('\n')}\n${this.complaints}`)
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }

  /** The exit code, or the name of the signal that ended it. */
  ended(): Promise<number | string> {
    return this.#ended
  }

  /** Kills the child and waits until it is gone. */
  async kill(): Promise<void> {
    this.process.kill('SIGKILL')
    await this.#ended
  }
}
