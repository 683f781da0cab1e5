import { expect, test } from 'vitest'
import { exitCodeOf, signalExitCode, startFailureExitCode, UsageError } from '../../src/cli/exit-codes.ts'
import { LeaseholdError, type ErrorCode } from '../../src/index.ts'

test.each<[ErrorCode, number]>([
  ['TIMEOUT', 75],
  ['HELD', 75],
  ['DEADLOCK', 75],
  ['LOST', 76],
  ['UNAVAILABLE', 69],
  ['INVALID', 64],
  ['UNSUPPORTED', 64],
  ['CLOSED', 70],
])('%s exits with %i', (code, exitCode) => {
  expect(exitCodeOf(new LeaseholdError(code, 'x'))).toBe(exitCode)
})

test('wrong use exits with 64, a defect with 70', () => {
  expect(exitCodeOf(new UsageError('x'))).toBe(64)
  expect(exitCodeOf(new TypeError('x'))).toBe(70)
})

test('a signal exits as in a shell', () => {
  expect(signalExitCode('SIGINT')).toBe(130)
  expect(signalExitCode('SIGTERM')).toBe(143)
  expect(signalExitCode('SIGKILL')).toBe(137)
})

test('a command that cannot be started exits as in a shell', () => {
  expect(startFailureExitCode(Object.assign(new Error(), { code: 'ENOENT' }))).toBe(127)
  expect(startFailureExitCode(Object.assign(new Error(), { code: 'EACCES' }))).toBe(126)
})
