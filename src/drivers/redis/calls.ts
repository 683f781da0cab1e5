import { keyOf } from '../../core/contract/requests.ts'
import type { Request } from '../../core/contract/driver.ts'
import { hashTagOf } from './hash-tags.ts'
import { monotonicMs } from '../../core/machine/machine-clock.ts'

/** The most requests of one call: while a longer script runs, Redis would keep every other client waiting. */
const requestsPerCallMax = 1000

/** The requests of one call, by their indexes in the batch. */
export type CallIndexes = readonly number[]

/**
 * Divides a batch into groups of calls. Usually there is one group; on a cluster there is one for each hash tag, or for
 * each key while the tag's slot is being moved. Different groups may be sent at the same time; the calls of one group go
 * one after the other, as they may be about the same key.
 */
export function callsOf(
  requests: readonly Request[],
  cluster: boolean,
  migrating: MigratingSlots,
): readonly (readonly CallIndexes[])[] {
  const groups = new Map<string, number[]>()
  for (const [index, request] of requests.entries()) {
    const name = cluster ? groupOf(keyOf(request), migrating) : ''
    const group = groups.get(name)
    if (group === undefined) groups.set(name, [index])
    else group.push(index)
  }
  return [...groups.values()].map((indexes) => slicesOf(indexes))
}

/** Whether the whole batch fits into one call. */
export function isOneCall(requests: readonly Request[], cluster: boolean): boolean {
  return requests.length === 1 || (!cluster && requests.length <= requestsPerCallMax)
}

function groupOf(key: string, migrating: MigratingSlots): string {
  const tag = hashTagOf(key)
  return migrating.has(tag) ? `${tag} ${key}` : tag
}

function slicesOf(indexes: CallIndexes): readonly CallIndexes[] {
  const count = Math.ceil(indexes.length / requestsPerCallMax)
  return Array.from({ length: count }, (_, slice) =>
    indexes.slice(slice * requestsPerCallMax, (slice + 1) * requestsPerCallMax),
  )
}

/** How long a slot counts as being moved after the last sign of it. */
const migratingForMs = 10_000

/**
 * The hash tags whose keys lie on two nodes of a cluster, because their slot is being moved. Until the move is over the
 * cluster refuses a call with several of these keys, so each key gets a call of its own.
 */
export class MigratingSlots {
  readonly #until = new Map<string, number>()

  note(tag: string): void {
    this.#until.set(tag, monotonicMs() + migratingForMs)
  }

  has(tag: string): boolean {
    const until = this.#until.get(tag)
    if (until === undefined) return false
    if (monotonicMs() < until) return true
    this.#until.delete(tag)
    return false
  }
}
