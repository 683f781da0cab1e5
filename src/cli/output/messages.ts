import { isatty } from 'node:tty'
import { redactedText } from '../../core/contract/redaction.ts'
import { StandardError } from './standard-error.ts'
import { printable } from './terminal-text.ts'

/** How Leasehold itself speaks: on standard error, a line each. */
export interface Messages {
  readonly say: (line: string) => void
  /** A line that the next one replaces. Only where lines can be replaced. */
  readonly status: (line: string) => void
  /** Takes such a line away: something else is printed there. */
  readonly clearStatus: () => void
  /** Whether they can. */
  readonly rewrites: boolean
  /**
   * Does what no reader may delay. Else each line is written before we go on, in order with what is printed: somebody who
   * reads nothing, or has pressed Ctrl-S, would keep us from renewing a lease and from stopping a command.
   */
  readonly withoutWaiting: <Result>(work: () => Promise<Result>) => Promise<Result>
  /** Resolves when all that was said is written. */
  readonly written: () => Promise<void>
}

const prefix = 'leasehold: '
const eraseLine = '\r\u001b[2K'

const alwaysWritten: Pick<Messages, 'withoutWaiting' | 'written'> = {
  withoutWaiting: (work) => work(),
  written: () => Promise.resolve(),
}

/** Lines with our name before them. Nothing in a line steers the terminal or gives away what a URL keeps secret. */
export function messagesTo(
  write: (text: string) => void,
  terminal: { columns: number } | undefined,
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
      // A line that wraps cannot be erased.
      write(`${eraseLine}${`${prefix}${shown(line)}`.slice(0, terminal.columns - 1)}`)
      isStatusShown = true
    },
  }
}

/** Where a text came from a store or an error, this is the last place to take care of it. */
function shown(line: string): string {
  return printable(redactedText(line))
}

/** Messages on our standard error, which the command shares with us. */
export function standardErrorMessages(): Messages {
  const errors = new StandardError()
  if (isatty(2)) return messagesTo(errors.write, { columns: process.stderr.columns || 80 }, errors)
  return messagesTo(errors.write, undefined, errors)
}
