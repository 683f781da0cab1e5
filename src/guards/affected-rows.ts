import { LeaseholdError } from '../core/errors.ts'

/**
 * The result of a writing statement, by client: pg (`rowCount`), postgres (`count`), node:sqlite, better-sqlite3 and
 * libsql (`changes`), @libsql/client (`rowsAffected`), mariadb (`affectedRows`), mysql2 (the same, in an array), or a number.
 */
export type WriteResult =
  | number
  | { readonly rowCount: number | null }
  | { readonly count: number }
  | { readonly changes: number | bigint }
  | { readonly rowsAffected: number }
  | { readonly affectedRows: number }
  | readonly [{ readonly affectedRows: number }, ...unknown[]]

const names = ['rowCount', 'changes', 'affectedRows', 'rowsAffected', 'count'] as const

/** How many rows a statement wrote. Throws if the result does not say: to assume success would be unsafe. */
export function affectedRows(result: WriteResult): number {
  const given: unknown = result
  // A result of the postgres package is an array of rows with a `count` property.
  const source = Array.isArray(given) && !('count' in given) ? (given[0] as unknown) : given
  if (typeof source === 'object' && source !== null) {
    for (const name of names) {
      const value: unknown = (source as Record<string, unknown>)[name]
      if (typeof value === 'number' || typeof value === 'bigint') return rows(Number(value))
    }
  }
  return rows(source)
}

function rows(value: unknown): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value
  throw new LeaseholdError(
    'INVALID',
    `The result does not say how many rows were written. Pass it as the client returned it, or pass the number. Known fields: ${names.join(', ')}.`,
  )
}
