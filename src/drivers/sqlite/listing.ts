import { listed } from '../../core/rule/claim-record.ts'
import type { KeyPage, ListedKey, ListQuery } from '../../core/contract/driver.ts'
import { pageLimit } from '../kit/paging.ts'
import { decodeRow } from './claim-row.ts'
import type { Observer } from './observer.ts'
import type { Statements } from './statements.ts'

/** Waiters of a key are read in one go: no claim has a band this low or ranks after so many. */
const fromTheFirst = [-1, -1] as const
const allOfThem = -1

/** One page of what the file holds, in the order of its keys (by their bytes), in the observer's clock. Writes nothing. */
export function listPage(statements: Statements, observer: Observer, query: ListQuery): KeyPage {
  const limit = pageLimit(query)
  const keys: string[] =
    query.key !== undefined
      ? [query.key].filter((key) => query.after === undefined || key > query.after)
      : statements.keysAfter.all(query.after ?? '', query.prefix ?? '', limit + 1).map((row) => row['key'] as string)
  const page: ListedKey[] = []
  for (const key of keys.slice(0, limit)) {
    const holders = statements.holdersOf.all(key).map((row) => decodeRow(row, 'held'))
    const waiters = statements.waitersAfter.all(key, ...fromTheFirst, allOfThem).map((row) => decodeRow(row, 'waiting'))
    const claims = [...holders, ...waiters].map((row) => listed(observer.see(row)))
    if (claims.length > 0) page.push({ key, claims })
  }
  const last = page.at(-1)
  return { now: observer.now, keys: page, ...(keys.length > limit && last !== undefined && { next: last.key }) }
}
