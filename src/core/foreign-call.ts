/**
 * Calls a function of somebody else, a listener say, whose errors are its own: what it throws, or rejects the promise with that
 * it returns, goes to `complain` and nowhere else.
 */
export function callForeign(call: () => unknown, complain: (error: unknown) => void): void {
  try {
    const result = call()
    if (typeof (result as PromiseLike<unknown> | undefined)?.then === 'function') {
      Promise.resolve(result).catch(complain)
    }
  } catch (error) {
    complain(error)
  }
}
