import { listed } from '../../core/rule/claim-record.ts'
import type { KeyPage, ListQuery } from '../../core/contract/driver.ts'
import { claimsLimit, countedMax, pageLimit, pageOfRows } from '../kit/paging.ts'
import { decodeRow } from './claim-row.ts'
import type { RowObserver } from './row-observer.ts'
import type { Statements } from './statements.ts'

/** Lower than the band and arrival of any waiter. */
const beforeTheFirst = [-1, -1] as const

/** One page of the file's keys, in the order of their bytes, with times of the observer's clock. Writes nothing. */
export function sqlitePage(statements: Statements, observer: RowObserver, query: ListQuery): KeyPage {
  const limit = pageLimit(query)
  const keys =
    query.key !== undefined
      ? [query.key].filter((key) => query.after === undefined || key > query.after)
      : statements.keysAfter.all(query.after ?? '', query.prefix ?? '', limit + 1).map((row) => row['key'] as string)
  return pageOfRows(
    keys,
    { query, now: observer.now },
    (key) => key,
    (key) => {
      const claimsMax = claimsLimit(query)
      const found = statements.firstHoldersOf.all(key, claimsMax).map((row) => decodeRow(row, 'held'))
      const holders = found.toSorted((first, second) => first.fence - second.fence)
      const waiters = statements.waitersAfter.all(key, ...beforeTheFirst, claimsMax - holders.length)
      const rows = [...holders, ...waiters.map((row) => decodeRow(row, 'waiting'))]
      if (rows.length === 0) return undefined
      const { known } = query
      if (known !== undefined && rows.length === claimsMax && !rows.some(({ claim }) => claim.id === known)) {
        const held = statements.holderById.get(key, known)
        const waiting = statements.waiterOf.get(key, known)
        if (held !== undefined) rows.push(decodeRow(held, 'held'))
        else if (waiting !== undefined) rows.push(decodeRow(waiting, 'waiting'))
      }
      const claims = rows.map((row) => listed(observer.see(row)))
      if (rows.length < claimsMax) return { key, claims }
      const counts = statements.countsOf.get(key, countedMax(query))
      return { key, claims, held: counts?.['held'] as number, waiting: counts?.['waiting'] as number }
    },
  )
}
