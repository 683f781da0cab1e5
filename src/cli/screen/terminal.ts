import { writeSync } from 'node:fs'
import type { ReadStream, WriteStream } from 'node:tty'

/** Columns and rows of a terminal. */
export interface TerminalSize {
  readonly columns: number
  readonly rows: number
}

/** The terminal of standard output. */
export interface Terminal {
  size(): TerminalSize
  /** Whether keys can be read: standard input is the terminal, too. */
  readonly takesKeys: boolean
  /** Takes the whole screen until the result is disposed of, or the process ends. */
  takeScreen(events: ScreenEvents): TakenScreen
}

/** What happens on a taken screen. */
export interface ScreenEvents {
  /** Keys as the terminal sends them, one at a time. */
  readonly onKey: (key: string) => void
  /** The size changed, or the process was resumed: everything must be drawn again. */
  readonly onRedraw: () => void
}

/** A screen that was taken. */
export interface TakenScreen extends Disposable {
  /** Replaces what is shown. Lines must be no wider than the screen. */
  draw(lines: readonly string[]): void
}

const enter = '\u001b[?1049h\u001b[?25l\u001b[H\u001b[2J'
const leave = '\u001b[?25h\u001b[?1049l'
/** The file descriptor. */
const standardOutput = 1
const keyOfInterrupt = '\u0003'
const keyOfSuspension = '\u001a'

/** A terminal whose window has no size, such as a serial line, is taken to be this large. */
const defaultSize: TerminalSize = { columns: 80, rows: 24 }

/** The terminal of this process. */
export class ProcessTerminal implements Terminal {
  readonly #openOutput: () => WriteStream
  readonly #openInput: () => ReadStream | undefined

  /** Both streams are opened with their first use. `openInput`: undefined if standard input is no terminal. */
  constructor(openOutput: () => WriteStream, openInput: () => ReadStream | undefined) {
    this.#openOutput = openOutput
    this.#openInput = openInput
  }

  get takesKeys(): boolean {
    return this.#openInput() !== undefined
  }

  size(): TerminalSize {
    const { columns, rows } = this.#openOutput()
    return { columns: columns || defaultSize.columns, rows: rows || defaultSize.rows }
  }

  takeScreen(events: ScreenEvents): TakenScreen {
    return new AlternateScreen(this.#openOutput(), this.#openInput(), events, () => this.size())
  }
}

/** The alternate screen, left again on every way out of the process except SIGKILL. */
class AlternateScreen implements TakenScreen {
  readonly #output: WriteStream
  readonly #input: ReadStream | undefined
  readonly #events: ScreenEvents
  readonly #size: () => TerminalSize
  #isShown = false
  #isOver = false

  constructor(output: WriteStream, input: ReadStream | undefined, events: ScreenEvents, size: () => TerminalSize) {
    this.#output = output
    this.#input = input
    this.#events = events
    this.#size = size
    input?.setEncoding('utf8').on('data', this.#onData)
    input?.on('end', this.#onHangUp).on('error', this.#onHangUp)
    output.on('resize', events.onRedraw)
    process.on('SIGTSTP', this.#onSuspend)
    process.on('SIGCONT', this.#onResume)
    process.on('exit', this.#hide)
    // Before Node prints the error: on the alternate screen nobody would see it.
    process.on('uncaughtExceptionMonitor', this.#hide)
    this.#show()
  }

  draw(lines: readonly string[]): void {
    if (!this.#isShown) return
    const { rows } = this.#size()
    const shown = lines.slice(0, rows)
    // Each line is erased before it is written: erasing the whole screen first would flicker, and after a full line its end.
    this.#output.write(`\u001b[H${shown.map((line) => `\u001b[K${line}`).join('\r\n')}${below(shown.length, rows)}`)
  }

  [Symbol.dispose](): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#hide()
    this.#input?.off('data', this.#onData)
    this.#input?.off('end', this.#onHangUp).off('error', this.#onHangUp)
    this.#input?.pause()
    this.#output.off('resize', this.#events.onRedraw)
    process.off('SIGTSTP', this.#onSuspend)
    process.off('SIGCONT', this.#onResume)
    process.off('exit', this.#hide)
    process.off('uncaughtExceptionMonitor', this.#hide)
  }

  #show(): void {
    this.#isShown = true
    this.#input?.setRawMode(true)
    this.#output.write(enter)
  }

  /** Synchronous, as the process may be about to end. */
  readonly #hide = (): void => {
    if (!this.#isShown) return
    this.#isShown = false
    try {
      writeSync(standardOutput, leave)
      this.#input?.setRawMode(false)
    } catch {
      // The terminal is gone.
    }
  }

  readonly #onData = (text: string): void => {
    for (const key of keysIn(text)) {
      if (this.#isOver) return
      // In raw mode the terminal sends keys instead of signals.
      if (key === keyOfInterrupt) process.kill(process.pid, 'SIGINT')
      // The whole job stops, as from any other program: npx may be waiting for us.
      else if (key === keyOfSuspension) process.kill(0, 'SIGTSTP')
      else this.#events.onKey(key)
    }
  }

  readonly #onHangUp = (): void => {
    if (!this.#isOver) process.kill(process.pid, 'SIGHUP')
  }

  readonly #onSuspend = (): void => {
    this.#hide()
    process.kill(process.pid, 'SIGSTOP')
  }

  readonly #onResume = (): void => {
    // A shell may have changed the modes of the terminal, also if nobody told us of the stop (SIGSTOP).
    this.#show()
    this.#events.onRedraw()
  }
}

/** Erases what is below the last line, if there is anything. */
function below(lines: number, rows: number): string {
  return lines < rows ? '\r\n\u001b[J' : ''
}

/** The keys of one read: an escape sequence is one key, other characters are each one. */
export function keysIn(text: string): readonly string[] {
  // eslint-disable-next-line no-control-regex -- terminals send escape sequences
  return text.match(/\u001b(?:\[[0-9;]*[A-Za-z~]|O[A-Za-z])|[^]/gu) ?? []
}
