import { keyOf } from '../../core/contract/requests.ts'
import type { Request, ClaimStatus } from '../../core/contract/driver.ts'

/** Requests for one key in one transaction: each may put a marker, and etcd does only so much at once. */
const requestsPerKeyMax = 40

/** Sends requests slice by slice. What was answered counts, and after a failure nothing more is sent. */
export async function sendInSlices(
  requests: readonly Request[],
  send: (slice: readonly Request[]) => Promise<readonly ClaimStatus[]>,
): Promise<readonly ClaimStatus[]> {
  const statuses: ClaimStatus[] = []
  for (const slice of slicesOf(requests)) {
    try {
      statuses.push(...(await send(slice)))
    } catch (error) {
      if (statuses.length === 0) throw error
      return requests.map((_, index) => statuses[index] ?? { state: 'unknown', error })
    }
  }
  return statuses
}

/** The requests in their order, cut where there would be too many of one key. */
export function slicesOf(requests: readonly Request[]): readonly (readonly Request[])[] {
  if (requests.length <= requestsPerKeyMax) return [requests]
  const slices: Request[][] = [[]]
  let counts = new Map<string, number>()
  for (const request of requests) {
    const key = keyOf(request)
    const count = (counts.get(key) ?? 0) + 1
    if (count > requestsPerKeyMax) {
      slices.push([])
      counts = new Map()
    }
    counts.set(key, count > requestsPerKeyMax ? 1 : count)
    slices.at(-1)?.push(request)
  }
  return slices
}
