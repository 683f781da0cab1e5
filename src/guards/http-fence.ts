import { checkFence, superseded } from './superseded.ts'

/** The request header that carries a fence. */
export const fenceHeader = 'If-Fence'

/** The response header that marks a 412 as the refusal of a guard. @internal */
export const refusedHeader = 'Fence-Refused'

/** The part of a lease that a request needs. */
export interface Fenced {
  readonly fence: number
  /** Aborts the request when the lease is lost. */
  readonly signal?: AbortSignal | undefined
}

/**
 * `fetch` for the holder of a lease: adds its fence, and aborts when the lease is lost. A GET raises the fence before it
 * reads. Rejects with LOST (`superseded`) if the server has seen a later holder; resolves to every other response.
 *
 * @example
 * ```ts
 * import { fencedFetch } from 'leasehold/guards'
 *
 * await locks.run('orders/42', (lease) => fencedFetch(lease, 'http://127.0.0.1:8080/orders/42', { method: 'PUT' }))
 * ```
 */
export async function fencedFetch(lease: Fenced, input: string | URL, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers)
  headers.set(fenceHeader, String(checkFence(lease.fence)))
  const signals = [lease.signal, init.signal].filter((signal) => signal != null)
  const response = await fetch(input, { ...init, headers, signal: AbortSignal.any(signals) })
  if (response.status !== 412 || response.headers.get(refusedHeader) !== 'superseded') return response
  // Free the connection for the next request: an unread body would keep it.
  await response.body?.cancel()
  throw superseded(String(input), lease.fence)
}

/** The fence in a request header; undefined if it is missing or malformed. @internal */
export function readFence(header: string | readonly string[] | undefined): number | undefined {
  if (typeof header !== 'string' || !/^[1-9]\d{0,15}$/.test(header)) return undefined
  const fence = Number(header)
  return Number.isSafeInteger(fence) ? fence : undefined
}
