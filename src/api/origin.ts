import { fileURLToPath } from 'node:url'
import { ownLocation } from '../core/machine/own-location.ts'

/** Where a call came from. Taking it costs some ten microseconds; it is put into words only when somebody reads it. */
export interface Origin {
  readonly stack?: string
}

/** The folder of this package's code, which is not where a user looks. In a bundle it cannot be told from the user's. */
const ownFolder = /^(.*\/)core\/machine\/own-location\.[jt]s$/.exec(ownLocation())?.[1]
const ownPath = ownFolder?.startsWith('file:') ? fileURLToPath(ownFolder) : undefined

/** Where we are called from now. */
export function origin(): Origin {
  const here: { stack?: string } = {}
  Error.captureStackTrace(here, origin)
  return here
}

/** The user's own lines of it, innermost first. */
export function linesOf({ stack = '' }: Origin): readonly string[] {
  const isOwn = (line: string): boolean => ownPath !== undefined && line.includes(ownPath)
  return stack
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line.startsWith('at ') && !isOwn(line) && !/node:|ext:|<anonymous>|\(native/.test(line))
}
