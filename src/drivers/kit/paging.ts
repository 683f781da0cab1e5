import type { KeyPage, ListedKey, ListQuery } from '../../core/contract/driver.ts'

/** Keys a page when the query names no number. */
const keysPerPage = 100

/** How many keys a page of this query may have: a whole number from 1 to 1000, whatever was asked for. */
export function pageLimit(query: ListQuery): number {
  const limit = Math.floor(query.limit ?? keysPerPage)
  return limit >= 1 ? Math.min(1000, limit) : 1
}

/** Claims of a key when the query names no number. */
const claimsMax = 1000
/** A page ends when it has this many claims. */
export const claimsPerPage = 5000

/** How many claims of a key this query may show: a whole number from 1 to 1000, whatever was asked for. */
export function claimsLimit({ claims }: Pick<ListQuery, 'claims'>): number {
  const limit = Math.floor(claims ?? claimsMax)
  return limit >= 1 ? Math.min(claimsMax, limit) : 1
}

/** How far a store counts the claims of a key that it lists in part: always further than it lists them. */
export function countedMax(query: Pick<ListQuery, 'claims'>): number {
  return claimsLimit(query) + 1000
}

/** A key with as many of its claims as the query allows and the one it knows, and how many there are if that is not all. */
export function cutKey(listed: ListedKey, query: Pick<ListQuery, 'claims' | 'known'>): ListedKey {
  const { key, claims } = listed
  const limit = claimsLimit(query)
  if (claims.length <= limit) return listed
  const counted = claims.filter(({ state }) => state === 'held').length
  const { held = counted, waiting = claims.length - counted } = listed
  const shown = claims.slice(0, limit)
  const known = query.known === undefined ? undefined : claims.find(({ id }) => id === query.known)
  if (known !== undefined && !shown.includes(known)) shown.push(known)
  return { key, claims: shown, held, waiting }
}

/** Counts the claims of a page, which ends when it has enough of them. */
export class PageFill {
  #claims = 0

  get isFull(): boolean {
    return this.#claims >= claimsPerPage
  }

  add({ claims }: ListedKey): void {
    this.#claims += claims.length
  }
}

/**
 * The first keys that a page of this query may show, and one more, in ascending order, out of keys in any order: finding a page does not
 * sort them all.
 */
export function firstKeys(
  keys: Iterable<string>,
  query: ListQuery,
  isListed: (key: string) => boolean,
): readonly string[] {
  const { prefix = '', after = '' } = query
  const most = pageLimit(query) + 1
  let found: string[] = []
  /** Enough keys come before this one. */
  let end: string | undefined
  for (const key of keys) {
    if (!key.startsWith(prefix) || (after !== '' && key <= after) || (end !== undefined && key >= end)) continue
    if (!isListed(key)) continue
    found.push(key)
    if (found.length < 2 * most) continue
    found = found.toSorted().slice(0, most)
    end = found.at(-1)
  }
  return found.toSorted().slice(0, most)
}

/** One page out of all keys, in ascending order, for stores that can name them all. Keys without claims are left out. */
export function pageOf(
  keys: readonly string[],
  query: ListQuery,
  now: number,
  listedOf: (key: string) => Omit<ListedKey, 'key'>,
): KeyPage {
  const limit = pageLimit(query)
  const page: ListedKey[] = []
  const fill = new PageFill()
  for (const key of keys) {
    if (query.prefix !== undefined && !key.startsWith(query.prefix)) continue
    if (query.after !== undefined && key <= query.after) continue
    const found = listedOf(key)
    if (found.claims.length === 0) continue
    const last = page.at(-1)
    if (last !== undefined && (page.length === limit || fill.isFull)) return { now, keys: page, next: last.key }
    const listed = cutKey({ key, ...found }, query)
    fill.add(listed)
    page.push(listed)
  }
  return { now, keys: page }
}

/**
 * A page out of rows of which one more than fits was read. `next` is the key of the last row that was looked at, also if that row lists
 * nothing.
 */
export function pageOfRows<Row>(
  rows: readonly Row[],
  { query, now }: { readonly query: ListQuery; readonly now: number },
  keyOf: (row: Row) => string,
  listed: (row: Row) => ListedKey | undefined,
): KeyPage {
  const limit = pageLimit(query)
  const keys: ListedKey[] = []
  const fill = new PageFill()
  let last: Row | undefined
  for (const [index, row] of rows.entries()) {
    if (last !== undefined && (index === limit || fill.isFull)) return { now, keys, next: keyOf(last) }
    last = row
    const found = listed(row)
    if (found === undefined) continue
    const cut = cutKey(found, query)
    fill.add(cut)
    keys.push(cut)
  }
  return { now, keys }
}
