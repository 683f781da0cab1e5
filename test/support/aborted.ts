/** Resolves when the signal is aborted: for a lease's signal, when the lease has ended. */
export function aborted(signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
}
