import { constants } from 'node:os'
import { LeaseholdError, type ErrorCode } from '../index.ts'

/** Exit codes of Leasehold itself, used when the supervised command's own code is not passed through. */
export const exitCodes = {
  nobodyHeldIt: 1,
  usage: 64,
  unavailable: 69,
  internal: 70,
  outputLost: 74,
  contention: 75,
  leaseLost: 76,
  notExecutable: 126,
  notFound: 127,
} as const

/** The exit code of a process ended by a signal, as in shells: 128 plus the number of the signal. */
export function signalExitCode(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal]
}

/** The exit code of an error that kept a command from doing its work. */
export function exitCodeOf(error: unknown): number {
  if (error instanceof UsageError) return exitCodes.usage
  if (error instanceof OutputError) return exitCodes.outputLost
  return error instanceof LeaseholdError ? codeOf(error.code) : exitCodes.internal
}

function codeOf(code: ErrorCode): number {
  switch (code) {
    case 'INVALID':
    case 'UNSUPPORTED':
      return exitCodes.usage
    case 'TIMEOUT':
    case 'HELD':
    case 'DEADLOCK':
    case 'SCOPE_MISMATCH':
      return exitCodes.contention
    case 'LOST':
    case 'NOT_HELD':
      return exitCodes.leaseLost
    case 'UNAVAILABLE':
      return exitCodes.unavailable
    case 'ABORTED':
    case 'CLOSED':
      return exitCodes.internal
  }
}

/** The exit code if a command cannot be started: 126 or 127, as in shells. */
export function startFailureExitCode(error: NodeJS.ErrnoException): number {
  return error.code === 'ENOENT' ? exitCodes.notFound : exitCodes.notExecutable
}

/** The exit codes of `run` and `elect`, for `--help`. */
export const exitCodesHelp = `Exit codes:
  the command's own code, or 128 + N if signal N ended it
  64   wrong use          69   the store cannot be reached
  75   not granted: held by somebody else (within --wait)
  76   the lease was lost or in danger, and the command was stopped
  126  the command cannot be executed      127  the command was not found
  130  interrupted (SIGINT) while waiting  143  terminated (SIGTERM) while waiting`

/** The command line was used wrongly. The message says how to do better. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** A file that a command had to leave behind could not be written. */
export class OutputError extends Error {
  override readonly name = 'OutputError'
}
