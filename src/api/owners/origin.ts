/** Where a call came from. Capturing it costs some ten microseconds; the stack is formatted only when it is read. */
export interface Origin {
  readonly stack?: string
}

/** The folder of this package's code, whose lines are left out. Undefined in a bundle, which mixes it with the user's code. */
const ownFolder = /^(.*\/)api\/owners\/origin\.[jt]s$/.exec((import.meta as { readonly url?: string }).url ?? '')?.[1]
/** That folder as stacks write it: as a URL or as a path. */
const ownPaths = ownFolder === undefined ? [] : [ownFolder, decodeURI(new URL(ownFolder).pathname)]

/** The origin of the current call. */
export function origin(): Origin {
  const here: { stack?: string } = {}
  // Some engines lack captureStackTrace. There the innermost line is ours, which `linesOf` leaves out.
  if (typeof Error.captureStackTrace !== 'function') return new Error('here')
  Error.captureStackTrace(here, origin)
  return here
}

/** The lines of the user's own code, innermost first. */
export function linesOf({ stack = '' }: Origin): readonly string[] {
  const isOwn = (line: string): boolean => ownPaths.some((path) => line.includes(path))
  return stack
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line.startsWith('at ') && !isOwn(line) && !/node:|ext:|<anonymous>|\(native/.test(line))
}
