import { LeaseholdError, messageOf } from '../../core/errors.ts'
import { explained, explanations, refusedBy, type Explanation } from '../kit/explanation.ts'

/** Primary result codes of SQLite that make a difference here. */
const codes = {
  SQLITE_PERM: 3,
  SQLITE_BUSY: 5,
  SQLITE_LOCKED: 6,
  SQLITE_READONLY: 8,
  SQLITE_IOERR: 10,
  SQLITE_CORRUPT: 11,
  SQLITE_FULL: 13,
  SQLITE_CANTOPEN: 14,
  SQLITE_PROTOCOL: 15,
  SQLITE_NOTADB: 26,
} as const

/** SQLite's messages for these codes. In Deno, an error of `exec` or of opening a file has the message and no code. */
const messages: readonly (readonly [start: string, code: number])[] = [
  ['access permission denied', codes.SQLITE_PERM],
  ['database is locked', codes.SQLITE_BUSY],
  ['database table is locked', codes.SQLITE_LOCKED],
  ['attempt to write a readonly database', codes.SQLITE_READONLY],
  ['disk I/O error', codes.SQLITE_IOERR],
  ['database disk image is malformed', codes.SQLITE_CORRUPT],
  ['database or disk is full', codes.SQLITE_FULL],
  ['unable to open database file', codes.SQLITE_CANTOPEN],
  ['locking protocol', codes.SQLITE_PROTOCOL],
  ['file is not a database', codes.SQLITE_NOTADB],
]

/** The primary result code of an error. Undefined: SQLite did not throw it. */
function sqliteCode(error: unknown): number | undefined {
  const { errcode, code, message } = (error ?? {}) as { errcode?: unknown; code?: unknown; message?: unknown }
  // Extended codes keep the primary one in their low byte.
  if (typeof errcode === 'number') return errcode & 0xff
  if (code !== 'ERR_SQLITE_ERROR') return undefined
  return messages.find(([start]) => String(message).startsWith(start))?.[1]
}

/** Whether another connection has the file locked just now: trying again is all it takes. */
export function isBusy(error: unknown): boolean {
  const code = sqliteCode(error)
  return code === codes.SQLITE_BUSY || code === codes.SQLITE_LOCKED || code === codes.SQLITE_PROTOCOL
}

/** Whether the file is not one that SQLite wrote. */
export function isNoDatabase(error: unknown): boolean {
  return sqliteCode(error) === codes.SQLITE_NOTADB
}

/** Whether a failed COMMIT with this error surely wrote nothing. */
export function wroteNothing(error: unknown): boolean {
  const code = sqliteCode(error)
  return isBusy(error) || code === codes.SQLITE_FULL || code === codes.SQLITE_READONLY
}

/** Whether the connection may still see the fault (a damaged page, a deleted log) when it is gone: a new connection is needed. */
export function spoilsConnection(error: unknown): boolean {
  return !(error instanceof LeaseholdError) && !wroteNothing(error)
}

/** The error a user sees for whatever went wrong with `file`: what happened, and what to do. */
export function sqliteError(error: unknown, file: string): LeaseholdError {
  return explained(file, error, explain)
}

/** The error for a row that SQLite can read and Leasehold cannot: the file was edited. It is explained as a damaged file is. */
export function damagedRow(what: string, cause: unknown): Error {
  return Object.assign(new Error(`${what} cannot be read (${messageOf(cause)})`, { cause }), {
    errcode: codes.SQLITE_CORRUPT,
  })
}

function explain(error: unknown): Explanation {
  const fileSystem = explainFileSystem((error as NodeJS.ErrnoException | null)?.code)
  if (fileSystem !== undefined) return fileSystem
  if (isBusy(error)) return { reason: 'busy', advice: 'Other processes kept the lock file busy; try again.' }
  switch (sqliteCode(error)) {
    case codes.SQLITE_READONLY:
    case codes.SQLITE_PERM:
      return readOnly
    case codes.SQLITE_CANTOPEN:
      return { reason: 'read-only', advice: 'Make sure that the file and its directory exist and may be written to.' }
    case codes.SQLITE_FULL:
      return explanations.diskFull
    case codes.SQLITE_CORRUPT:
    case codes.SQLITE_NOTADB:
      return {
        reason: 'corrupt',
        advice: 'The lock file is damaged. Stop its users and move it away: a new one continues with higher fences.',
      }
    case codes.SQLITE_IOERR:
      return { reason: 'io', advice: 'The disk could not be read or written.' }
    default:
      return refusedBy('sqlite')
  }
}

const readOnly: Explanation = {
  reason: 'read-only',
  advice: 'Locks cannot be kept where nothing may be written: choose another file.',
}

function explainFileSystem(code: string | undefined): Explanation | undefined {
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS') return readOnly
  if (code === 'ENOSPC' || code === 'EDQUOT') return explanations.diskFull
  if (
    code === 'ENOTDIR' ||
    code === 'EISDIR' ||
    code === 'ELOOP' ||
    code === 'ENAMETOOLONG' ||
    code === 'ENOENT' ||
    code === 'EEXIST'
  ) {
    return { reason: 'configuration', advice: 'The path does not name a file that can be made.' }
  }
  return undefined
}
