import { keyOf } from '../../core/batcher.ts'
import type { Request } from '../../core/driver.ts'
import type { HalfMoved } from './half-moved.ts'
import { hashTagOf } from './hash-tags.ts'

/** The most requests of one call: a longer script would keep everybody else waiting. */
const requestsPerCallMax = 1000

/**
 * Divides a batch into calls: the places in it that go together. Usually all of them; on a cluster those of one hash
 * tag, or of one key while the tag's slot is being moved. Requests of one key stay together and in their order: calls
 * may overtake each other.
 */
export function callsOf(
  requests: readonly Request[],
  cluster: boolean,
  halfMoved: HalfMoved,
): readonly (readonly number[])[] {
  const groups = new Map<string, number[]>()
  for (const [place, request] of requests.entries()) {
    const group = cluster ? groupOf(keyOf(request), halfMoved) : ''
    const places = groups.get(group)
    if (places === undefined) groups.set(group, [place])
    else places.push(place)
  }
  return [...groups.values()].flatMap((places) => pieces(places, requests))
}

/** Whether a batch is one call as it is. */
export function isOneCall(requests: readonly Request[], cluster: boolean): boolean {
  return requests.length === 1 || (!cluster && requests.length <= requestsPerCallMax)
}

function groupOf(key: string, halfMoved: HalfMoved): string {
  const tag = hashTagOf(key)
  return halfMoved.has(tag) ? `${tag} ${key}` : tag
}

function pieces(places: number[], requests: readonly Request[]): readonly number[][] {
  if (places.length <= requestsPerCallMax) return [places]
  const cut: number[][] = []
  let latest: number[] = []
  const pieceOf = new Map<string, number[]>()
  for (const place of places) {
    const key = keyOf(requests[place] as Request)
    let piece = pieceOf.get(key)
    if (piece === undefined) {
      if (latest.length === 0 || latest.length >= requestsPerCallMax) cut.push((latest = []))
      pieceOf.set(key, (piece = latest))
    }
    piece.push(place)
  }
  return cut
}
