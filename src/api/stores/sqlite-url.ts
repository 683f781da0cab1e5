import path from 'node:path'
import { LeaseholdError } from '../../core/errors.ts'
import { defaultFile } from '../../core/machine/state-directory.ts'

/** The file that follows `sqlite:`, in full; the default one if nothing does. */
export function sqliteFile(rest: string): string {
  return path.resolve(rest === '' ? defaultFile() : checkFile(rest))
}

/** A file and nothing else. What other programs write there would name some other file. */
export function checkFile(rest: string): string {
  if (rest.startsWith('//')) {
    const file = rest.replace(/^\/+/, '')
    throw new LeaseholdError(
      'INVALID',
      `${JSON.stringify(`sqlite:${rest}`)} can be read in two ways. ` +
        `Write sqlite:/${file} for a path from the root, sqlite:${file} for one from here.`,
    )
  }
  if (!rest.includes('?')) return rest
  const [file] = rest.split('?')
  throw new LeaseholdError('INVALID', `The URL of an SQLite store takes no parameters. Write sqlite:${file}`)
}
