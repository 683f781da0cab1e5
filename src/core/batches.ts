/** How the requests of one turn are divided into batches: in which order, and which of them together. */
import type { Request, ClaimStatus } from './driver.ts'
import type { Requester } from './batcher.ts'
import { urgencyOf } from './time/send-timeout.ts'

/** The most requests of one `send`: larger ones would hold up those of others in the store. */
export const requestsPerBatchMax = 500

/** A request on its way, and whoever made it. */
export interface Pending {
  readonly key: string
  readonly request: Request
  readonly requester: Requester
  /** Counts the requests of a batcher, in the order asked. */
  readonly number: number
  /** When a request that is held back may go ahead of what its key has under way; -1: not held back, or a claim. */
  overtakesAt: number
  /** The answer, until the requester is told. */
  status: ClaimStatus | undefined
}

/** Sorting is stable: requests of one key stay in the order asked. */
export function byKey(one: Pending, other: Pending): number {
  return one.key < other.key ? -1 : one.key > other.key ? 1 : 0
}

export function byNumber(one: Pending, other: Pending): number {
  return one.number - other.number
}

/**
 * The requests apart by urgency, mostly all in one: how long a batch may take is up to the most urgent of its requests, and one
 * that must hurry must not make others time out. The requests of one key stay together, as urgent as the least of them.
 */
export function byUrgency(requests: readonly Pending[]): Iterable<readonly Pending[]> {
  const apart = new Map<number, Pending[]>()
  for (let from = 0, to = 0; from < requests.length; from = to) {
    let urgency = Infinity
    for (; requests[to] !== undefined && requests[to]?.key === requests[from]?.key; to += 1) {
      urgency = Math.min(urgency, urgencyOf((requests[to] as Pending).request))
    }
    const like = apart.get(urgency)
    if (like === undefined) apart.set(urgency, requests.slice(from, to))
    else for (let index = from; index < to; index += 1) like.push(requests[index] as Pending)
  }
  return apart.values()
}

/** Batches of at most `requestsPerBatchMax`, never dividing the requests of one key. */
export function* split(requests: readonly Pending[]): Iterable<readonly Pending[]> {
  let from = 0
  for (let to = 1; to <= requests.length; to += 1) {
    const next = requests[to]
    const full = to - from >= requestsPerBatchMax && next !== undefined
    if (full && next.key === requests[to - 1]?.key) continue
    if (full || next === undefined) {
      yield requests.slice(from, to)
      from = to
    }
  }
}
