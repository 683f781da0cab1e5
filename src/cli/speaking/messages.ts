import { writeSync } from 'node:fs'
import { isatty } from 'node:tty'

/** How Leasehold itself speaks: on standard error, a line each. */
export interface Messages {
  readonly say: (line: string) => void
  /** A line that the next one replaces. Only where lines can be replaced. */
  readonly status: (line: string) => void
  /** Takes such a line away: something else is printed there. */
  readonly clearStatus: () => void
  /** Whether they can. */
  readonly rewrites: boolean
}

const prefix = 'leasehold: '
const eraseLine = '\r\u001b[2K'

/** Text that is already safe to print, with our name before it. */
export function messagesTo(write: (text: string) => void, terminal: { columns: number } | undefined): Messages {
  let isStatusShown = false
  const erasing = (): string => {
    const erase = isStatusShown ? eraseLine : ''
    isStatusShown = false
    return erase
  }
  return {
    rewrites: terminal !== undefined,
    say: (line) => write(`${erasing()}${prefix}${line}\n`),
    clearStatus: () => write(erasing()),
    status(line) {
      if (terminal === undefined) return
      // A line that wraps cannot be erased.
      write(`${eraseLine}${`${prefix}${line}`.slice(0, terminal.columns - 1)}`)
      isStatusShown = true
    },
  }
}

/**
 * Messages on our standard error. Written at once and without `process.stderr`, which would make a pipe that the command
 * shares with us non-blocking.
 */
export function standardErrorMessages(): Messages {
  return messagesTo(writeError, isatty(2) ? { columns: process.stderr.columns || 80 } : undefined)
}

/** Nobody may be listening any more: that is no reason to fail. */
function writeError(text: string): void {
  try {
    writeSync(2, text)
  } catch {
    // Closed, or full and not being read.
  }
}
