import type { KeyPage, ListedClaim, ListedKey, ListQuery } from '../../core/contract/driver.ts'

/** Keys a page when the query names no number. */
const keysPerPage = 100

/** How many keys a page of this query may have: a whole number from 1 to 1000, whatever was asked for. */
export function pageLimit(query: ListQuery): number {
  const limit = Math.floor(query.limit ?? keysPerPage)
  return limit >= 1 ? Math.min(1000, limit) : 1
}

/** One page out of all keys, in ascending order, for stores that can name them all. Keys without claims are left out. */
export function pageOf(
  keys: readonly string[],
  query: ListQuery,
  now: number,
  claimsOf: (key: string) => readonly ListedClaim[],
): KeyPage {
  const limit = pageLimit(query)
  const page: ListedKey[] = []
  for (const key of keys) {
    if (query.prefix !== undefined && !key.startsWith(query.prefix)) continue
    if (query.after !== undefined && key <= query.after) continue
    const claims = claimsOf(key)
    if (claims.length === 0) continue
    if (page.length === limit) return { now, keys: page, next: (page[page.length - 1] as ListedKey).key }
    page.push({ key, claims })
  }
  return { now, keys: page }
}

/** A page out of rows of which one more than fits was read. `next` is the key of the last row, also if that row lists nothing. */
export function pageOfRows<Row>(
  rows: readonly Row[],
  { limit, now }: { readonly limit: number; readonly now: number },
  keyOf: (row: Row) => string,
  listed: (row: Row) => ListedKey | undefined,
): KeyPage {
  const shown = rows.slice(0, limit)
  const keys = shown.map(listed).filter((key) => key !== undefined)
  const last = shown.at(-1)
  return rows.length > limit && last !== undefined ? { now, keys, next: keyOf(last) } : { now, keys }
}
