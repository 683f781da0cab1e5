/** Settles as `promise` does, or rejects with what `late` makes once `milliseconds` have passed. */
export function within<Value>(
  milliseconds: number,
  promise: Promise<Value>,
  late: (milliseconds: number) => unknown,
): Promise<Value> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(late(milliseconds)), milliseconds)
    promise.then(
      (value) => {
        clearTimeout(timer)
        resolve(value)
      },
      (error: unknown) => {
        clearTimeout(timer)
        reject(error)
      },
    )
  })
}
