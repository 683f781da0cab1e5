import type { KeyPage, ListQuery } from '../../core/contract/driver.ts'
import { listedKey } from '../document/key-document.ts'
import { pageLimit, pageOfRows } from '../kit/paging.ts'
import { decodeMongodbDocument, projectedFields, type StoredKey } from './document.ts'
import { isTooLarge } from './errors.ts'
import type { Expression } from './fast-path.ts'
import type { MongoStore } from './store.ts'

/** One page of keys with claims, in the order of their names: a shorter one where as many do not fit into an answer. */
export async function mongodbPage(
  store: MongoStore,
  clock: Expression,
  query: ListQuery,
  timeoutMs: number,
): Promise<KeyPage> {
  const limit = pageLimit(query)
  try {
    return await readPage(store, clock, query, limit, timeoutMs)
  } catch (error) {
    if (!isTooLarge(error) || limit === 1) throw error
    return mongodbPage(store, clock, { ...query, limit: Math.ceil(limit / 2) }, timeoutMs)
  }
}

async function readPage(
  store: MongoStore,
  clock: Expression,
  query: ListQuery,
  limit: number,
  timeoutMs: number,
): Promise<KeyPage> {
  const pipeline = [
    { $match: { ...namesOf(query), 'claims.0': { $exists: true } } },
    { $sort: { _id: 1 } },
    { $limit: limit + 1 },
    { $project: projectedFields },
    { $facet: { documents: [{ $match: {} }] } },
    { $set: { now: { $toLong: clock } } },
  ]
  const [page] = (await store.read(pipeline, timeoutMs)) as { documents: StoredKey[]; now: number | Date }[]
  return pageOfRows(
    page?.documents ?? [],
    { query: { ...query, limit }, now: Number(page?.now) },
    ({ _id: key }) => key,
    (stored) => {
      const { _id: key } = stored
      return listedKey(key, decodeMongodbDocument(key, stored), query)
    },
  )
}

function namesOf({ key, prefix, after }: ListQuery): { _id?: object } {
  if (key !== undefined) return { _id: { $eq: key } }
  const bound = prefix === undefined || prefix === '' ? undefined : pastAllWith(prefix)
  const names = {
    ...(prefix !== undefined && { $gte: prefix }),
    ...(bound !== undefined && { $lt: bound }),
    ...(after !== undefined && { $gt: after }),
  }
  return Object.keys(names).length === 0 ? {} : { _id: names }
}

/** The least name after all that begin with the prefix; undefined if there is none. */
export function pastAllWith(prefix: string): string | undefined {
  const points = Array.from(prefix, (character) => character.codePointAt(0) as number)
  while (points.length > 0) {
    const last = points.pop() as number
    if (last === 0x10_ffff) continue
    // Halves of surrogate pairs are no characters.
    const next = last + 1 >= 0xd800 && last + 1 <= 0xdfff ? 0xe000 : last + 1
    return String.fromCodePoint(...points, next)
  }
  return undefined
}
