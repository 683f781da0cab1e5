type ExceptionName = 'AbortError' | 'InvalidStateError' | 'NotSupportedError'

/** An error that the specification names. `cause` is Leasehold's error behind it. */
export function exception(name: ExceptionName, message: string, cause?: unknown): DOMException {
  return new DOMException(message, cause === undefined ? { name } : { name, cause })
}
