import { LeaseholdError } from '../core/errors.ts'

/**
 * The result of a SELECT, by client: pg and @libsql/client (`rows`), postgres, mariadb and the `all` of SQLite (an array of rows), mysql2 (the
 * same, in an array), the first row or nothing (`get`), the number of rows, or whether there is one.
 */
export type FindResult = number | boolean | object | null | undefined

/** How many rows a SELECT found. Throws if the result does not say. */
export function foundRows(result: FindResult): number {
  if (result === undefined || result === null) return 0
  if (typeof result === 'boolean') return Number(result)
  if (Array.isArray(result)) return rowsOf(result)
  if (typeof result === 'object') {
    const { rows } = result as { readonly rows?: unknown }
    return Array.isArray(rows) ? rows.length : 1
  }
  if (Number.isSafeInteger(result) && result >= 0) return result
  throw new LeaseholdError(
    'INVALID',
    'The result does not say whether there is a row. Pass it as the client returned it.',
  )
}

/** A result of mysql2 is an array of the rows and their columns. */
function rowsOf(result: readonly unknown[]): number {
  const [first] = result
  return Array.isArray(first) ? first.length : result.length
}
