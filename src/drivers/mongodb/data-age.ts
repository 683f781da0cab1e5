import type { BsonFields } from './client.ts'
import { writeConcern } from './concerns.ts'
import { isDuplicate } from './errors.ts'
import type { Expression } from './fast-path.ts'
import type { MongoStore } from './store.ts'

/** The id of the document that says since when the collection has been kept. Not a text, so no lock has it. */
const birthId = { kept: 'since' } as const

interface Birth {
  readonly since?: Date | undefined
  /** The UUID of the collection that it was written into: a dump is restored into another. */
  readonly collection?: string | undefined
}

/**
 * For how long the server has kept its data, by its own clock: since the collection was made, and since the process of
 * the primary started, which may have been on an older copy of its files.
 */
export async function dataAgeMs(store: MongoStore, clock: Expression, timeoutMs: number): Promise<number> {
  const [{ birth, now }, collection, startedAt] = await Promise.all([
    readBirth(store, clock, timeoutMs),
    store.collectionUuid(timeoutMs),
    store.startedAt(timeoutMs),
  ])
  const since = Number(birth?.since ?? Number.NaN)
  if (birth?.collection === collection && since <= now) return Math.max(0, now - Math.max(since, startedAt ?? 0))
  await begin(store, clock, collection, timeoutMs)
  return 0
}

async function readBirth(
  store: MongoStore,
  clock: Expression,
  timeoutMs: number,
): Promise<{ readonly birth: Birth | undefined; readonly now: number }> {
  const pipeline = [
    { $match: { _id: birthId } },
    { $facet: { births: [{ $match: {} }] } },
    { $set: { now: { $toLong: clock } } },
  ]
  const [page] = (await store.read(pipeline, timeoutMs)) as { births: Birth[]; now: unknown }[]
  return { birth: page?.births[0], now: Number(page?.now) }
}

/** Writes that the data begins now, unless another client has just done so. */
async function begin(
  store: MongoStore,
  clock: Expression,
  collection: string | undefined,
  timeoutMs: number,
): Promise<void> {
  const uuid = { $literal: collection ?? '' }
  const isOurs = { $and: [{ $eq: ['$collection', uuid] }, { $lte: ['$since', clock] }, { $gt: ['$since', null] }] }
  const update = [{ $set: { since: { $cond: [isOurs, '$since', clock] }, collection: uuid } }]
  const filter: BsonFields = { _id: birthId }
  try {
    await store.collection.updateOne(filter, update, { upsert: true, writeConcern, timeoutMS: timeoutMs })
  } catch (error) {
    if (!isDuplicate(error)) throw error
  }
}
