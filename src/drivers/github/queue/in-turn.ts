/** Works on items one after the other within a key, and on all keys at once. Gives the results in the order of the items. */
export async function eachInTurn<Item, Result>(
  items: readonly Item[],
  keyOf: (item: Item) => string,
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const last = new Map<string, Promise<Result>>()
  const results = items.map((item) => {
    const before = last.get(keyOf(item))
    const result = before === undefined ? work(item) : before.then(() => work(item))
    last.set(keyOf(item), result)
    return result
  })
  return Promise.all(results)
}
