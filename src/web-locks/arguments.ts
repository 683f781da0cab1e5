import { exception } from './exceptions.ts'
import type { LockMode, WebLock } from './interface.ts'

/** The arguments of `request`, checked. */
export interface LockRequest {
  readonly name: string
  readonly mode: LockMode
  readonly ifAvailable: boolean
  readonly steal: boolean
  readonly signal: AbortSignal | undefined
  readonly callback: (lock: WebLock | null) => unknown
}

type Options = Omit<LockRequest, 'name' | 'callback'>

/**
 * Checks the arguments in the order of Web IDL: their number, then each from left to right, the options' members in
 * alphabetical order. Throws TypeError.
 */
export function readArguments(given: readonly unknown[]): LockRequest {
  if (given.length < 2) throw new TypeError(`request takes 2 arguments or 3, not ${given.length}.`)
  const [name, second, third] = given
  const [options, callback] = given.length === 2 ? [undefined, second] : [second, third]
  const text = readText(name)
  const members = readOptions(options)
  if (typeof callback !== 'function') throw new TypeError('The callback of request is not a function.')
  return { name: text, ...members, callback: callback as LockRequest['callback'] }
}

function readOptions(given: unknown): Options {
  if (given != null && typeof given !== 'object' && typeof given !== 'function') {
    throw new TypeError('The options of request are not an object.')
  }
  const options = (given ?? {}) as Readonly<Record<keyof Options, unknown>>
  const ifAvailable = Boolean(options.ifAvailable)
  const mode = readMode(options.mode)
  const signal = readSignal(options.signal)
  return { ifAvailable, mode, signal, steal: Boolean(options.steal) }
}

function readMode(given: unknown): LockMode {
  if (given === undefined) return 'exclusive'
  const mode = readText(given)
  if (mode === 'exclusive' || mode === 'shared') return mode
  throw new TypeError(`${JSON.stringify(mode)} is no mode of a lock. Use exclusive or shared.`)
}

function readText(given: unknown): string {
  // String() would accept a symbol.
  if (typeof given === 'symbol') throw new TypeError('A symbol is no text.')
  return String(given)
}

function readSignal(given: unknown): AbortSignal | undefined {
  if (given === undefined || given instanceof AbortSignal) return given
  throw new TypeError('The signal of request is not an AbortSignal.')
}

/** Throws for what the specification refuses, in its order. Throws the signal's reason if the signal has aborted already. */
export function refuseContradictions({ name, mode, ifAvailable, steal, signal }: LockRequest): void {
  if (name.startsWith('-')) throw notSupported(`Names that begin with '-' are reserved.`)
  if (steal && ifAvailable) throw notSupported('steal and ifAvailable do not go together.')
  if (steal && mode !== 'exclusive') throw notSupported('Only an exclusive lock can be stolen.')
  if (signal !== undefined && (steal || ifAvailable)) {
    throw notSupported('A signal does not go together with steal or ifAvailable: neither waits.')
  }
  signal?.throwIfAborted()
}

function notSupported(message: string): Error {
  return exception('NotSupportedError', message)
}
