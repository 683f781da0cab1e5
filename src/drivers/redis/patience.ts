/** Settles as `promise` does, or rejects with what `late` makes once `milliseconds` have passed. */
export function within<Value>(
  milliseconds: number,
  promise: Promise<Value>,
  late: (milliseconds: number) => unknown,
): Promise<Value> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(late(milliseconds)), milliseconds)
    const settle = (): void => {
      clearTimeout(timer)
      resolve(promise)
    }
    promise.then(settle, settle)
  })
}
