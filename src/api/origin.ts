import { fileURLToPath } from 'node:url'

/** Where a call came from. Taking it costs some ten microseconds; it is put into words only when somebody reads it. */
export interface Origin {
  readonly stack?: string
}

/** This package's own code, which is not where a user looks. */
const ownFolder = fileURLToPath(new URL('..', import.meta.url))

/** Where we are called from now. */
export function origin(): Origin {
  const here: { stack?: string } = {}
  Error.captureStackTrace(here, origin)
  return here
}

/** The user's own lines of it, innermost first. */
export function linesOf({ stack = '' }: Origin): readonly string[] {
  return stack
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line.startsWith('at ') && !line.includes(ownFolder) && !/node:|<anonymous>/.test(line))
}
