import { isatty } from 'node:tty'
import { redactedText } from '../../core/contract/redaction.ts'
import { cutToWidth } from './text-width.ts'
import { StandardError } from './standard-error.ts'
import { printable } from '../../core/printable.ts'

/** The messages of Leasehold itself: lines on standard error. */
export interface Messages {
  readonly say: (line: string) => void
  /** Shows a line that the next one replaces. Does nothing without a terminal. */
  readonly status: (line: string) => void
  /** Erases the status line. */
  readonly clearStatus: () => void
  /** Whether status lines are shown. */
  readonly rewrites: boolean
  /**
   * Runs `work` with asynchronous messages. Otherwise each line is written synchronously, in order with standard output, and
   * a reader that stops reading (Ctrl-S) would keep us from renewing a lease and from stopping a command.
   */
  readonly withoutWaiting: <Result>(work: () => Promise<Result>) => Promise<Result>
  /** Resolves once all messages are written. */
  readonly written: () => Promise<void>
}

const prefix = 'leasehold: '
const eraseLine = '\r\u001b[2K'

const alwaysWritten: Pick<Messages, 'withoutWaiting' | 'written'> = {
  withoutWaiting: (work) => work(),
  written: () => Promise.resolve(),
}

/** Prefixes lines with our name, escapes control characters and redacts the secrets of URLs. */
export function messagesTo(
  write: (text: string) => void,
  terminal: { readonly columns: number } | undefined,
  { withoutWaiting, written }: Pick<Messages, 'withoutWaiting' | 'written'> = alwaysWritten,
): Messages {
  let isStatusShown = false
  const erasing = (): string => {
    const erase = isStatusShown ? eraseLine : ''
    isStatusShown = false
    return erase
  }
  return {
    rewrites: terminal !== undefined,
    withoutWaiting,
    written,
    say: (line) => write(`${erasing()}${prefix}${shown(line)}\n`),
    clearStatus: () => write(erasing()),
    status(line) {
      if (terminal === undefined) return
      // Cut the line: one that wraps cannot be erased.
      write(`${eraseLine}${cutToWidth(`${prefix}${shown(line)}`, terminal.columns - 1)}`)
      isStatusShown = true
    },
  }
}

/** The last place to redact and escape text that came from a store or an error. */
function shown(line: string): string {
  return printable(redactedText(line))
}

/** Messages on standard error, which we share with the supervised command. */
export function standardErrorMessages(): Messages {
  const errors = new StandardError()
  if (isatty(2)) {
    // Read with each use: the user may resize the terminal.
    const terminal = {
      get columns() {
        return process.stderr.columns || 80
      },
    }
    return messagesTo(errors.write, terminal, errors)
  }
  return messagesTo(errors.write, undefined, errors)
}
