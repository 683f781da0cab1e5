/**
 * Numbered parameters (`?1`), which a statement needs to use one value twice. Node before 22.20, and 24 before 24.7, cannot
 * bind values to them by position, so no binding is given a number: each `?N` becomes a `?` of its own.
 */

const numbered = /\?(\d+)/g

/** A statement without numbers. */
export interface PlainStatement {
  readonly sql: string
  /** For each `?`, which of the caller's values it stands for. Undefined: the first for the first, and so on. */
  readonly order: readonly number[] | undefined
}

/** Spells a statement without numbered parameters. No text or comment in it may look like one. */
export function withoutNumbers(sql: string): PlainStatement {
  const order = Array.from(sql.matchAll(numbered), ([, number]) => Number(number) - 1)
  const isInOrder = order.every((value, place) => value === place)
  return { sql: sql.replace(numbered, '?'), order: isInOrder ? undefined : order }
}

/** The values in the order of the statement's parameters. */
export function inOrder<Value>(values: readonly Value[], order: readonly number[]): Value[] {
  return order.map((value) => values[value] as Value)
}
