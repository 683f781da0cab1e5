import type { ClaimStatus, Request } from '../../core/contract/driver.ts'
import { keyOf } from '../../core/contract/requests.ts'
import { isPlain } from './plain-claim.ts'

/** The most plain requests of one call to a store. */
const plainRequestsMax = 1000

/**
 * Divides requests into slices that keep a store busy for a short time each: at most `ruleMax` requests that need the whole rule, which
 * are claims of shared locks and ranges and whatever asks for the key of the request before it, or a thousand plain ones.
 */
export function slicesByWork(requests: readonly Request[], ruleMax: number): readonly (readonly Request[])[] {
  if (requests.length <= ruleMax) return [requests]
  const ruleWork = plainRequestsMax / ruleMax
  const slices: Request[][] = []
  let slice: Request[] = []
  let work = 0
  let keyBefore: string | undefined
  for (const request of requests) {
    const key = keyOf(request)
    const needsRule = key === keyBefore || (request.op === 'claim' && !isPlain(request.claim))
    keyBefore = key
    const added = needsRule ? ruleWork : 1
    if (work + added > plainRequestsMax) {
      slices.push(slice)
      slice = []
      work = 0
    }
    slice.push(request)
    work += added
  }
  slices.push(slice)
  return slices
}

/**
 * Sends requests slice by slice, and answers as one `send` does: rejects only if nothing was sent. After a slice whose outcome is unknown
 * the next is not tried, as it would only wait as long again.
 */
export async function sendByWork(
  requests: readonly Request[],
  ruleMax: number,
  send: (slice: readonly Request[]) => Promise<readonly ClaimStatus[]>,
): Promise<readonly ClaimStatus[]> {
  const slices = slicesByWork(requests, ruleMax)
  if (slices.length === 1) return send(requests)
  const statuses: ClaimStatus[] = []
  for (const slice of slices) {
    const answered = await send(slice).catch((error: unknown) => {
      if (statuses.length === 0) throw error
      return slice.map((): ClaimStatus => ({ state: 'unknown', error }))
    })
    for (const status of answered) statuses.push(status)
    const [first] = answered
    if (first === undefined || answered.some(({ state }) => state !== 'unknown')) continue
    while (statuses.length < requests.length) statuses.push(first)
    break
  }
  return statuses
}
