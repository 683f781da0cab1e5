import { keyOf } from '../../core/contract/requests.ts'
import type { Request } from '../../core/contract/driver.ts'
import { slicesByWork } from '../kit/work.ts'
import { hashTagOf } from './hash-tags.ts'
import { monotonicMs } from '../../core/machine/machine-clock.ts'

/** The most requests of one call that need the whole rule: while a script runs, Redis keeps every other client waiting. */
const ruleRequestsMax = 64

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
  return [...groups.values()].map((indexes) => slicesOf(indexes, requests))
}

/** Whether the whole batch fits into one call. */
export function isOneCall(requests: readonly Request[], cluster: boolean): boolean {
  return requests.length === 1 || (!cluster && slicesByWork(requests, ruleRequestsMax).length === 1)
}

function groupOf(key: string, migrating: MigratingSlots): string {
  const tag = hashTagOf(key)
  return migrating.has(tag) ? `${tag} ${key}` : tag
}

function slicesOf(indexes: CallIndexes, requests: readonly Request[]): readonly CallIndexes[] {
  const slices = slicesByWork(
    indexes.map((index) => requests[index] as Request),
    ruleRequestsMax,
  )
  let from = 0
  return slices.map(({ length }) => indexes.slice(from, (from += length)))
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
