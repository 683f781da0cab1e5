import { keyOf } from '../../core/contract/requests.ts'
import type { Request } from '../../core/contract/driver.ts'
import { hashTagOf } from './hash-tags.ts'
import { monotonicMs } from '../../core/machine/machine-clock.ts'

/** The most requests of one call: a longer script would keep everybody else waiting. */
const requestsPerCallMax = 1000

/** The places in a batch of the requests of one call. */
export type Call = readonly number[]

/**
 * Divides a batch into calls. Usually it is one; on a cluster there is one for each hash tag, or for each key while the
 * tag's slot is being moved. Calls of different groups may be under way together; those of one group go one after the
 * other, as they may be about the same key.
 */
export function callsOf(
  requests: readonly Request[],
  cluster: boolean,
  halfMoved: MigratingSlots,
): readonly (readonly Call[])[] {
  const groups = new Map<string, number[]>()
  for (const [place, request] of requests.entries()) {
    const group = cluster ? groupOf(keyOf(request), halfMoved) : ''
    const places = groups.get(group)
    if (places === undefined) groups.set(group, [place])
    else places.push(place)
  }
  return [...groups.values()].map((places) => pieces(places))
}

/** Whether a batch is one call as it is. */
export function isOneCall(requests: readonly Request[], cluster: boolean): boolean {
  return requests.length === 1 || (!cluster && requests.length <= requestsPerCallMax)
}

function groupOf(key: string, halfMoved: MigratingSlots): string {
  const tag = hashTagOf(key)
  return halfMoved.has(tag) ? `${tag} ${key}` : tag
}

function pieces(places: Call): readonly Call[] {
  const count = Math.ceil(places.length / requestsPerCallMax)
  return Array.from({ length: count }, (_, piece) =>
    places.slice(piece * requestsPerCallMax, (piece + 1) * requestsPerCallMax),
  )
}

/** For how long a slot counts as being moved after it was last seen to be. */
const movesForMs = 10_000

/**
 * The hash tags whose keys lie on two nodes of a cluster, because their slot is being moved. Several of them in one call
 * are refused until the move is over, so each is asked for alone meanwhile.
 */
export class MigratingSlots {
  readonly #until = new Map<string, number>()

  note(tag: string): void {
    this.#until.set(tag, monotonicMs() + movesForMs)
  }

  has(tag: string): boolean {
    const until = this.#until.get(tag)
    if (until === undefined) return false
    if (monotonicMs() < until) return true
    this.#until.delete(tag)
    return false
  }
}
