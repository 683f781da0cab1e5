/** Settles as `promise` does, or rejects with what `late` makes once `milliseconds` have passed. */
export async function within<Value>(
  milliseconds: number,
  promise: Promise<Value>,
  late: (milliseconds: number) => unknown,
): Promise<Value> {
  let timer: NodeJS.Timeout | undefined
  const tooLate = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(late(milliseconds)), milliseconds)
  })
  try {
    return await Promise.race([promise, tooLate])
  } finally {
    clearTimeout(timer)
  }
}
