import { expect, test } from 'vitest'
import { worthRetrying } from '../../src/core/errors.ts'
import { sqliteError, isBusy, wroteNothing } from '../../src/drivers/sqlite/faults.ts'

/** As SQLite's bindings throw it. */
const errorOfSqlite = (errcode: number) =>
  Object.assign(new Error('from SQLite'), { code: 'ERR_SQLITE_ERROR', errcode })

test.each([
  ['busy', 5],
  ['busy', 5 + 2 * 256],
  ['read-only', 8],
  ['read-only', 8 + 6 * 256],
  ['read-only', 14],
  ['full', 13],
  ['corrupt', 11],
  ['corrupt', 26],
  ['io', 10 + 3 * 256],
  ['sqlite', 1],
])('%s is told by the result code %i', (reason, errcode) => {
  const error = errorOfSqlite(errcode)
  const fault = sqliteError(error, '/x/locks.sqlite')
  expect(fault).toMatchObject({ code: 'UNAVAILABLE', reason, cause: error })
  expect(fault.message).toContain('/x/locks.sqlite')
})

test.each([
  ['busy', 'database is locked'],
  ['read-only', 'attempt to write a readonly database'],
  ['read-only', 'unable to open database file: /x/locks.sqlite'],
  ['full', 'database or disk is full'],
  ['corrupt', 'database disk image is malformed'],
  ['corrupt', 'file is not a database'],
  ['io', 'disk I/O error'],
  ['sqlite', 'near "nonsense": syntax error in nonsense at offset 0'],
])('%s is told by the words of an error without a result code: %s', (reason, message) => {
  const error = Object.assign(new Error(message), { code: 'ERR_SQLITE_ERROR' })
  expect(sqliteError(error, '/x/locks.sqlite').reason).toBe(reason)
  expect(sqliteError(new Error(message), '/x/locks.sqlite').reason).toBe('sqlite')
})

test('only a busy file is worth another try at once', () => {
  expect(isBusy(errorOfSqlite(5))).toBe(true)
  expect(isBusy(errorOfSqlite(13))).toBe(false)
  expect(isBusy(new Error('SQLITE_BUSY'))).toBe(false)
  expect(worthRetrying(sqliteError(errorOfSqlite(5), 'f'))).toBe(true)
  expect(worthRetrying(sqliteError(errorOfSqlite(11), 'f'))).toBe(false)
})

test('after a failed commit the outcome is known only where SQLite is certain', () => {
  expect(wroteNothing(errorOfSqlite(5))).toBe(true)
  expect(wroteNothing(errorOfSqlite(13))).toBe(true)
  expect(wroteNothing(errorOfSqlite(10))).toBe(false)
})

test('errors of the file system say what to do', () => {
  const error = (code: string) => Object.assign(new Error(code), { code })
  expect(sqliteError(error('EROFS'), 'f').reason).toBe('read-only')
  expect(sqliteError(error('ENOSPC'), 'f').reason).toBe('full')
  expect(sqliteError(error('ENOTDIR'), 'f').reason).toBe('configuration')
})
