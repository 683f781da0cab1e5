type ExceptionName = 'AbortError' | 'InvalidStateError' | 'NotSupportedError'

/** An error that the specification names. `cause` is what Leasehold knows about it. */
export function exception(name: ExceptionName, message: string, cause?: unknown): DOMException {
  return new DOMException(message, cause === undefined ? { name } : { name, cause })
}
