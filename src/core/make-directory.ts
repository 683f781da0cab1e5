import { mkdirSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * Makes a directory, for this user alone, and those above it that are missing. Node's own `recursive` never returns where
 * the file system says of each step that the one above is missing, as /proc does.
 */
export function makeDirectory(directory: string): void {
  try {
    mkdirSync(directory, { mode: 0o700 })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST') return
    const above = dirname(directory)
    if (code !== 'ENOENT' || above === directory) throw error
    makeDirectory(above)
    mkdirSync(directory, { mode: 0o700 })
  }
}
