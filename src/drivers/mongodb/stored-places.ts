import type { StoredPlace } from '../kit/queue-poller.ts'
import type { MongoStore } from './store.ts'

/** A claim as the server gives it: id, channel, state, whether it was told to leave, and its index among the claims. */
type PlaceRow = readonly [id: string, channel: string, state: string, leaving: boolean, place: number]

const timeoutMs = 5000

/** The claims of one driver, by its channel, that are stored for these keys. */
export async function storedPlaces(
  store: MongoStore,
  channel: string,
  keys: readonly string[],
): Promise<ReadonlyMap<string, ReadonlyMap<string, StoredPlace>>> {
  const { $zip } = { $zip: { inputs: ['$claims.id', '$claims.channel', states, leaving, places] } }
  const ours = { $filter: { input: { $zip }, cond: { $eq: [{ $arrayElemAt: ['$$this', 1] }, channel] } } }
  const pipeline = [{ $match: { _id: { $in: keys }, claims: { $exists: true } } }, { $project: { ours } }]
  const found = (await store.read(pipeline, timeoutMs)) as { _id: string; ours: PlaceRow[] }[]
  return new Map(
    found.map(({ _id, ours: rows }) => [
      _id,
      new Map(rows.map(([id, , state, isLeaving, place]) => [id, { state, leaving: isLeaving, place }])),
    ]),
  )
}

/** `$zip` pairs by position: each claim must give a value, also where the field is missing. */
const states = { $map: { input: '$claims', in: { $ifNull: ['$$this.state', 'held'] } } }
const leaving = { $map: { input: '$claims', in: { $ne: [{ $type: '$$this.leaving' }, 'missing'] } } }
const places = { $range: [0, { $size: '$claims' }] }
