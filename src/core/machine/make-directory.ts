import { mkdirSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * Makes a directory, for this user alone, and those above it that are missing. Node's own `recursive` never returns where
 * the file system says of each step that the one above is missing, as /proc does.
 */
export function makeDirectory(directory: string): void {
  const above = dirname(directory)
  try {
    makeLast(directory)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || above === directory) throw error
    makeDirectory(above)
    makeLast(directory)
  }
}

/** Makes the last part of a path. Another process may have been quicker. */
function makeLast(directory: string): void {
  try {
    mkdirSync(directory, { mode: 0o700 })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}
