import { closeSync, constants, fstatSync, openSync, readFileSync, statSync, type Stats } from 'node:fs'
import { LeaseholdError, messageOf } from '../../core/errors.ts'

/** More than any token file or key needs. */
const secretBytesMax = 16 * 1024 * 1024

/**
 * The content of a file with secrets, such as `the tokens`. Refuses a file that others own or can read, as ssh does with keys. A file
 * owned by root may be readable for a group, as PostgreSQL allows for its keys: containers and systemd provide secrets that way.
 */
export function readSecretFile(file: string, what: string): Buffer {
  return readChecked(file, what, refuseReaders)
}

/**
 * The content of a file that anybody may read, and that decides who gets in, such as `the authorities`. Refuses a file that others could
 * change.
 */
export function readTrustedFile(file: string, what: string): Buffer {
  return readChecked(file, what, refuseWriters)
}

type Refuse = (stats: Stats, file: string, what: string) => void

/** The file that was checked is the file that is read, whatever its name stands for meanwhile. */
function readChecked(file: string, what: string, refuse: Refuse): Buffer {
  let descriptor: number | undefined
  try {
    // Non-blocking: opening a pipe without a writer would block.
    descriptor = openSync(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0))
    const stats = fstatSync(descriptor)
    if (!stats.isFile() || stats.size > secretBytesMax) throw invalid(`${file} is not a file with ${what}.`)
    refuse(stats, file, what)
    return readFileSync(descriptor)
  } catch (error) {
    if (error instanceof LeaseholdError) throw error
    // A file that we may not even open may have the wrong owner or mode: that is the better advice.
    const stats = descriptor === undefined ? statsOf(file) : undefined
    if (stats !== undefined) refuse(stats, file, what)
    throw new LeaseholdError('INVALID', `${capitalized(what)} cannot be read: ${messageOf(error)}`, { cause: error })
  } finally {
    if (descriptor !== undefined) closeSync(descriptor)
  }
}

function statsOf(file: string): Stats | undefined {
  try {
    return statSync(file)
  } catch {
    return undefined // Its directory may not be read either.
  }
}

function refuseWriters({ mode, uid }: Stats, file: string, what: string): void {
  const user = process.geteuid?.()
  if (user === undefined) return
  refuseForeign(uid, user, file, what)
  if ((mode & 0o022) !== 0) throw invalid(`Others can change ${what} in ${file}. Run: chmod go-w ${file}`)
}

function refuseForeign(uid: number, user: number, file: string, what: string): void {
  if (uid !== user && uid !== 0) throw invalid(`${file} with ${what} belongs to another user, who could change it.`)
}

function refuseReaders({ mode, uid }: Stats, file: string, what: string): void {
  const user = process.geteuid?.()
  if (user === undefined) return
  refuseForeign(uid, user, file, what)
  const allowed = uid === 0 && user !== 0 ? 0o640 : 0o600
  if ((mode & 0o077 & ~allowed) === 0) return
  throw invalid(`Others can read ${what} in ${file}. Run: chmod ${allowed.toString(8)} ${file}`)
}

function capitalized(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1)
}

function invalid(message: string): LeaseholdError {
  return new LeaseholdError('INVALID', message)
}
