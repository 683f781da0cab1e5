/** How the requests of one turn of the event loop are divided into batches. */
import { keyOf, urgencyOf } from '../contract/requests.ts'
import type { ClaimStatus, Request } from '../contract/driver.ts'

/** The maker of a request. `answered` is called once, with the times just before sending and when the answer came. */
export interface Requester {
  answered(request: Request, status: ClaimStatus, sentAt: number, at: number): void
}

/** The most requests of one `send`: a larger batch would hold up other clients in the store. */
export const requestsPerBatchMax = 500

/**
 * A request on its way, and its maker. A class: of a literal V8 remembers that the first very many lived long, and makes
 * all that follow long-lived objects, which are expensive to collect.
 */
export class PendingRequest {
  readonly key: string
  readonly request: Request
  readonly requester: Requester
  /** Counts the requests of a batcher, in the order asked. */
  readonly number: number
  /** When a request that is held back may overtake the one its key has under way; -1: not held back, or a claim. */
  overtakesAt = -1
  /** The answer, until the requester is told. */
  status: ClaimStatus | undefined = undefined

  constructor(request: Request, requester: Requester, number: number) {
    this.key = keyOf(request)
    this.request = request
    this.requester = requester
    this.number = number
  }
}

/** Sorting is stable: requests of one key stay in the order asked. */
export function byKey(first: PendingRequest, second: PendingRequest): number {
  return first.key < second.key ? -1 : first.key > second.key ? 1 : 0
}

/** The order asked. */
function byNumber(first: PendingRequest, second: PendingRequest): number {
  return first.number - second.number
}

/**
 * The requests of a batch in the order in which they are answered. It is the order asked, not that of the keys: of two
 * grants the one asked for first is told first. Renewals stay in the order of their keys: claims that are renewed together
 * are due in the order in which they were answered, and so need no sorting the next time.
 */
export function inOrderToAnswer(requests: readonly PendingRequest[]): readonly PendingRequest[] {
  return requests.every(({ request }) => request.op === 'renew') ? requests : requests.toSorted(byNumber)
}

/** Whether the requests are a batch as they are: renewals for one ttl, no more than a batch takes, sorted, each key once. */
export function isOneRenewal(requests: readonly PendingRequest[]): boolean {
  const first = requests[0]?.request
  let keyBefore = ''
  for (const { key, request } of requests) {
    if (request.op !== 'renew' || first?.op !== 'renew' || request.ttlMs !== first.ttlMs || key <= keyBefore)
      return false
    keyBefore = key
  }
  return requests.length <= requestsPerBatchMax
}

/**
 * The requests grouped by urgency, mostly in one group: the most urgent request limits how long a batch may take, and must
 * not make others time out. The requests of one key stay together, as urgent as the least urgent of them.
 */
export function byUrgency(requests: readonly PendingRequest[]): Iterable<readonly PendingRequest[]> {
  const apart = new Map<number, PendingRequest[]>()
  for (let from = 0, to = 0; from < requests.length; from = to) {
    let urgency = Infinity
    for (; requests[to] !== undefined && requests[to]?.key === requests[from]?.key; to += 1) {
      urgency = Math.min(urgency, urgencyOf((requests[to] as PendingRequest).request))
    }
    const like = apart.get(urgency)
    if (like === undefined) apart.set(urgency, requests.slice(from, to))
    else for (let index = from; index < to; index += 1) like.push(requests[index] as PendingRequest)
  }
  return apart.values()
}

/** Divides requests, sorted by key, into the first `requestsPerBatchMax` of each key and the rest. */
export function firstPieces(requests: readonly PendingRequest[]): [PendingRequest[], PendingRequest[]] {
  const pieces: PendingRequest[] = []
  const rest: PendingRequest[] = []
  let key: string | undefined
  let ofKey = 0
  for (const pending of requests) {
    ofKey = pending.key === key ? ofKey + 1 : 1
    ;({ key } = pending)
    if (ofKey <= requestsPerBatchMax) pieces.push(pending)
    else rest.push(pending)
  }
  return [pieces, rest]
}

/** Batches of at most `requestsPerBatchMax`, dividing the requests of one key only if these are more. */
export function* split(requests: readonly PendingRequest[]): Iterable<readonly PendingRequest[]> {
  let from = 0
  let keyFrom = 0
  for (let to = 1; to <= requests.length; to += 1) {
    const next = requests[to]
    if (next !== undefined && next.key !== requests[to - 1]?.key) keyFrom = to
    if (next !== undefined && to - from < requestsPerBatchMax) continue
    const until = next === undefined || keyFrom <= from ? to : keyFrom
    yield requests.slice(from, until)
    from = until
  }
}
