/** One `send` of a driver over documents: MongoDB and etcd bring the store's side of it, as hooks. */
import type { ClaimStatus, Request, Supports } from '../../core/contract/driver.ts'
import { withinLimits } from '../../core/contract/limits.ts'
import { keyOf } from '../../core/contract/requests.ts'
import type { LeaseholdError } from '../../core/errors.ts'
import type { Environment } from '../../core/time/environment.ts'
import type { Lifecycle } from '../kit/lifecycle.ts'
import { sendBySwapping, type DocumentSwapper } from './document-swaps.ts'

/** The store's side of one `send`: a swapper with a deadline of its own, and with what it has read. */
export interface DocumentSend<Revision> extends DocumentSwapper<Revision> {
  /** Lease hook: secures what claims are to live on. Rejects only if nothing was sent. */
  prepare?(): Promise<void>
  /** Notifier hook: what became of the requests, before the answers are given. Undefined: the send failed and wrote nothing. */
  settled?(statuses: readonly ClaimStatus[] | undefined): void
  /** Lease hook: the answer, with no more time than the store surely grants. */
  bounded?(request: Request, status: ClaimStatus): ClaimStatus
}

/** A driver that makes one {@link DocumentSend} for each `send`. */
export interface DocumentSender<Opened, Revision> {
  readonly supports: Supports
  readonly lifecycle: Lifecycle<Opened>
  readonly environment: Environment
  /** How many requests of one key go into one {@link DocumentSend}. @default any number */
  readonly requestsPerKeyMax?: number
  begin(opened: Opened, requests: readonly Request[]): DocumentSend<Revision>
  /** The error a user sees. */
  errorOf(error: unknown): LeaseholdError
}

/** Carries out requests: within limits, opened if need be, in slices if need be. Rejects only if nothing was written. */
export function sendOnDocuments<Opened, Revision>(
  sender: DocumentSender<Opened, Revision>,
  requests: readonly Request[],
): Promise<readonly ClaimStatus[]> {
  return withinLimits(sender.supports, requests, async (valid) => {
    const opened = sender.lifecycle.current ?? (await sender.lifecycle.opened())
    return sendInSlices(valid, sender.requestsPerKeyMax, (slice) => sendSlice(sender, opened, slice))
  })
}

async function sendSlice<Opened, Revision>(
  sender: DocumentSender<Opened, Revision>,
  opened: Opened,
  requests: readonly Request[],
): Promise<readonly ClaimStatus[]> {
  sender.lifecycle.refuseIfShut()
  const send = sender.begin(opened, requests)
  let statuses: readonly ClaimStatus[] | undefined
  try {
    // Tested, not awaited at once: a store without leases pays for no turn of the event loop.
    if (send.prepare !== undefined) await send.prepare()
    statuses = await sendBySwapping(send, requests, sender.environment)
  } catch (error) {
    throw sender.errorOf(error)
  } finally {
    send.settled?.(statuses)
  }
  if (send.bounded === undefined) return statuses
  return statuses.map((status, index) => send.bounded?.(requests[index] as Request, status) ?? status)
}

/** Sends slice by slice. Answers that came count; after a failure nothing more is sent. */
export async function sendInSlices(
  requests: readonly Request[],
  requestsPerKeyMax: number | undefined,
  send: (slice: readonly Request[]) => Promise<readonly ClaimStatus[]>,
): Promise<readonly ClaimStatus[]> {
  // At most so many requests in all: no key can have more.
  if (requestsPerKeyMax === undefined || requests.length <= requestsPerKeyMax) return send(requests)
  const statuses: ClaimStatus[] = []
  for (const slice of slicesOf(requests, requestsPerKeyMax)) {
    try {
      statuses.push(...(await send(slice)))
    } catch (error) {
      if (statuses.length === 0) throw error
      return requests.map((_, index) => statuses[index] ?? { state: 'unknown', error })
    }
  }
  return statuses
}

/** The requests in their order, cut where one key would have too many. */
export function slicesOf(requests: readonly Request[], requestsPerKeyMax: number): readonly (readonly Request[])[] {
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
