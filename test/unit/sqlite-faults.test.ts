import { expect, test } from 'vitest'
import { worthRetrying } from '../../src/core/errors.ts'
import { faultOf, isBusy, wroteNothing } from '../../src/drivers/sqlite/faults.ts'

/** As `libsql` throws it. */
const libsql = (code: string, rawCode?: number) => Object.assign(new Error('from libsql'), { code, rawCode })
/** As `node:sqlite` throws it. */
const builtin = (errcode: number) => Object.assign(new Error('from node'), { code: 'ERR_SQLITE_ERROR', errcode })

test.each([
  ['busy', libsql('SQLITE_BUSY', 5), builtin(5)],
  ['busy', libsql('SQLITE_BUSY_SNAPSHOT'), builtin(5 + 2 * 256)],
  ['read-only', libsql('SQLITE_READONLY_DIRECTORY', 8 + 6 * 256), builtin(8)],
  ['read-only', libsql('SQLITE_CANTOPEN', 14), builtin(14)],
  ['read-only', Object.assign(new Error('ConnectionFailed("Unable to open …/x: 14")'), { code: '' }), builtin(14)],
  ['full', libsql('SQLITE_FULL', 13), builtin(13)],
  ['corrupt', libsql('SQLITE_CORRUPT', 11), builtin(11)],
  ['corrupt', libsql('SQLITE_NOTADB', 26), builtin(26)],
  ['io', libsql('SQLITE_IOERR_WRITE', 10 + 3 * 256), builtin(10 + 3 * 256)],
])('%s is told apart whichever binding says so', (reason, one, other) => {
  for (const error of [one, other]) {
    const fault = faultOf(error, '/x/locks.sqlite')
    expect(fault).toMatchObject({ code: 'UNAVAILABLE', reason, cause: error })
    expect(fault.message).toContain('/x/locks.sqlite')
  }
})

test('only a busy file is worth another try at once', () => {
  expect(isBusy(libsql('SQLITE_BUSY'))).toBe(true)
  expect(isBusy(builtin(13))).toBe(false)
  expect(isBusy(new Error('SQLITE_BUSY'))).toBe(false)
  expect(worthRetrying(faultOf(builtin(5), 'f'))).toBe(true)
  expect(worthRetrying(faultOf(builtin(11), 'f'))).toBe(false)
})

test('after a failed commit the outcome is known only where SQLite is certain', () => {
  expect(wroteNothing(builtin(5))).toBe(true)
  expect(wroteNothing(builtin(13))).toBe(true)
  expect(wroteNothing(builtin(10))).toBe(false)
})

test('errors of the file system say what to do', () => {
  const error = (code: string) => Object.assign(new Error(code), { code })
  expect(faultOf(error('EROFS'), 'f').reason).toBe('read-only')
  expect(faultOf(error('ENOSPC'), 'f').reason).toBe('full')
  expect(faultOf(error('ENOTDIR'), 'f').reason).toBe('configuration')
})
