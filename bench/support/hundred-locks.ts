/** How long a round takes. */
export const roundMs = 1000
/** A hundred locks. */
export const keys = Array.from({ length: 100 }, (_, index) => `orders/${index}`)

/** Pairs a second of a hundred loops, each with a key of its own. */
export async function pairsPerSecond(pair: (key: string) => Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  let pairs = 0
  const loop = async (key: string): Promise<void> => {
    while (performance.now() - startedAt < roundMs) {
      await pair(key)
      pairs += 1
    }
  }
  await Promise.all(keys.map(loop))
  return (pairs * 1000) / (performance.now() - startedAt)
}
