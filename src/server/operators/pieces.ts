/**
 * Work on a snapshot of the store, in pieces: it may list ten thousand locks, and locks must be served meanwhile. What takes steps is a
 * generator, which yields after each.
 */

/** Steps that make a result. */
export type Steps<Result> = Generator<void, Result>

/** The longest piece, and after how many steps it is timed. */
const pieceMaxMs = 3
const stepsUntimed = 32

/** Carries out steps; after a few milliseconds of them, it is others' turn. */
export async function inPieces<Result>(steps: Steps<Result>, turn: () => Promise<void>): Promise<Result> {
  let begunAt = performance.now()
  for (let count = 1; ; count += 1) {
    const step = steps.next()
    if (step.done === true) return step.value
    if (count % stepsUntimed !== 0 || performance.now() - begunAt < pieceMaxMs) continue
    await turn()
    begunAt = performance.now()
  }
}

/** Carries out steps without a pause. */
export function atOnce<Result>(steps: Steps<Result>): Result {
  for (;;) {
    const step = steps.next()
    if (step.done === true) return step.value
  }
}

/** The items that pass a test. */
export function* filtered<Item>(items: Iterable<Item>, passes: (item: Item) => boolean): Steps<Item[]> {
  const passed: Item[] = []
  for (const item of items) {
    if (passes(item)) passed.push(item)
    yield
  }
  return passed
}

/** What becomes of each item. */
export function* mapped<Item, Result>(items: Iterable<Item>, map: (item: Item) => Result): Steps<Result[]> {
  const results: Result[] = []
  for (const item of items) {
    results.push(map(item))
    yield
  }
  return results
}

/** Sorted without a merge. */
const runLength = 32

/** The items in order; equal ones stay as they were. */
export function* sorted<Item>(items: readonly Item[], compare: (left: Item, right: Item) => number): Steps<Item[]> {
  let runs: Item[][] = []
  for (let at = 0; at < items.length; at += runLength) {
    runs.push(items.slice(at, at + runLength).toSorted(compare))
    yield
  }
  while (runs.length > 1) {
    const merged: Item[][] = []
    for (let at = 0; at < runs.length; at += 2)
      merged.push(yield* mergedRuns(runs[at] ?? [], runs[at + 1] ?? [], compare))
    runs = merged
  }
  return runs[0] ?? []
}

function* mergedRuns<Item>(
  left: readonly Item[],
  right: readonly Item[],
  compare: (left: Item, right: Item) => number,
): Steps<Item[]> {
  const merged: Item[] = []
  let at = 0
  for (const item of left) {
    for (let next = right[at]; at < right.length && compare(item, next as Item) > 0; next = right[at]) {
      merged.push(next as Item)
      at += 1
    }
    merged.push(item)
    yield
  }
  for (const item of right.slice(at)) merged.push(item)
  return merged
}
