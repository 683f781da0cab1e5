/** Where a call came from. Taking it costs some ten microseconds; it is put into words only when somebody reads it. */
export interface Origin {
  readonly stack?: string
}

/** The folder of this package's code, which is not where a user looks. In a bundle it cannot be told from the user's. */
const ownFolder = /^(.*\/)api\/owners\/origin\.[jt]s$/.exec((import.meta as { readonly url?: string }).url ?? '')?.[1]
/** As stacks write it: by its URL, or by its path. */
const ownPaths = ownFolder === undefined ? [] : [ownFolder, decodeURI(new URL(ownFolder).pathname)]

/** Where we are called from now. */
export function origin(): Origin {
  const here: { stack?: string } = {}
  // Not everywhere; there the innermost line is ours, and is left out as such.
  if (typeof Error.captureStackTrace !== 'function') return new Error('here')
  Error.captureStackTrace(here, origin)
  return here
}

/** The user's own lines of it, innermost first. */
export function linesOf({ stack = '' }: Origin): readonly string[] {
  const isOwn = (line: string): boolean => ownPaths.some((path) => line.includes(path))
  return stack
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line.startsWith('at ') && !isOwn(line) && !/node:|ext:|<anonymous>|\(native/.test(line))
}
