import { keyOf } from '../../core/contract/requests.ts'
import type { Request, ClaimStatus } from '../../core/contract/driver.ts'

/** Our claims that wait, as far as is known: whoever may have missed news is told to ask. */
export class WaitingClaims implements Iterable<readonly [id: string, key: string]> {
  readonly #keys = new Map<string, string>()

  /** Takes in what became of requests. */
  note(requests: readonly Request[], statuses: readonly ClaimStatus[]): void {
    for (let index = 0; index < requests.length; index += 1) {
      const request = requests[index] as Request
      const state = statuses[index]?.state
      if (request.op === 'evict' || (state !== 'waiting' && this.#keys.size === 0)) continue
      const id = request.op === 'claim' ? request.claim.id : request.id
      if (state === 'waiting') this.#keys.set(id, keyOf(request))
      else if (state !== 'unknown' || request.op === 'release') this.#keys.delete(id)
    }
  }

  delete(id: string): void {
    this.#keys.delete(id)
  }

  clear(): void {
    this.#keys.clear()
  }

  [Symbol.iterator](): Iterator<readonly [id: string, key: string]> {
    return this.#keys.entries()
  }
}
