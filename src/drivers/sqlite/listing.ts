import { listed } from '../../core/rule/claim-record.ts'
import type { KeyPage, ListQuery } from '../../core/contract/driver.ts'
import { pageLimit, pageOfRows } from '../kit/paging.ts'
import { decodeRow } from './claim-row.ts'
import type { RowObserver } from './row-observer.ts'
import type { Statements } from './statements.ts'

/** Lower than the band and arrival of any waiter, and no limit: all waiters of a key are read at once. */
const beforeTheFirst = [-1, -1] as const
const withoutLimit = -1

/** One page of the file's keys, in the order of their bytes, with times of the observer's clock. Writes nothing. */
export function sqlitePage(statements: Statements, observer: RowObserver, query: ListQuery): KeyPage {
  const limit = pageLimit(query)
  const keys =
    query.key !== undefined
      ? [query.key].filter((key) => query.after === undefined || key > query.after)
      : statements.keysAfter.all(query.after ?? '', query.prefix ?? '', limit + 1).map((row) => row['key'] as string)
  return pageOfRows(
    keys,
    { limit, now: observer.now },
    (key) => key,
    (key) => {
      const holders = statements.holdersOf.all(key).map((row) => decodeRow(row, 'held'))
      const waiters = statements.waitersAfter.all(key, ...beforeTheFirst, withoutLimit)
      const rows = [...holders, ...waiters.map((row) => decodeRow(row, 'waiting'))]
      return rows.length === 0 ? undefined : { key, claims: rows.map((row) => listed(observer.see(row))) }
    },
  )
}
