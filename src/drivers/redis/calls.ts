import { keyOf } from '../../core/batcher.ts'
import type { Request } from '../../core/driver.ts'
import { hashTagOf } from './hash-tags.ts'

/** The most requests of one call: a longer script would keep everybody else waiting. */
const requestsPerCallMax = 1000

/**
 * Divides a batch into calls: the places in it that go together. Usually all of them; on a cluster those of one hash
 * tag. Requests of one key stay in their order.
 */
export function callsOf(requests: readonly Request[], cluster: boolean): readonly (readonly number[])[] {
  const groups = new Map<string, number[]>()
  for (const [place, request] of requests.entries()) {
    const tag = cluster ? hashTagOf(keyOf(request)) : ''
    const group = groups.get(tag)
    if (group === undefined) groups.set(tag, [place])
    else group.push(place)
  }
  return [...groups.values()].flatMap((group) => pieces(group))
}

/** Whether a batch is one call as it is. */
export function isOneCall(requests: readonly Request[], cluster: boolean): boolean {
  return requests.length === 1 || (!cluster && requests.length <= requestsPerCallMax)
}

function pieces(group: readonly number[]): number[][] {
  const count = Math.ceil(group.length / requestsPerCallMax)
  return Array.from({ length: count }, (_, piece) =>
    group.slice(piece * requestsPerCallMax, (piece + 1) * requestsPerCallMax),
  )
}
