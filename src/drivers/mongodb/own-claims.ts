import { keyOf } from '../../core/batcher.ts'
import type { Request, Standing } from '../../core/driver.ts'

/** How one of our claims stood when it was last answered. */
export interface OwnClaim {
  readonly state: 'held' | 'waiting'
  /** Its owner has been told to ask, and has no answer yet. */
  asked: boolean
}

/** The claims this driver was last asked about that are not over, by key: whoever may have missed news is among them. */
export class OwnClaims {
  readonly #byKey = new Map<string, Map<string, OwnClaim>>()

  has(key: string, id: string): boolean {
    return this.#byKey.get(key)?.has(id) === true
  }

  of(key: string): ReadonlyMap<string, OwnClaim> {
    return this.#byKey.get(key) ?? none
  }

  keys(): Iterable<string> {
    return this.#byKey.keys()
  }

  waitsFor(key: string): boolean {
    for (const { state } of this.of(key).values()) if (state === 'waiting') return true
    return false
  }

  /** Takes down what was answered. Gives the keys that have claims now and had none that waited before. */
  note(requests: readonly Request[], standings: readonly Standing[]): string[] {
    const fresh: string[] = []
    for (const [index, request] of requests.entries()) {
      if (request.op === 'evict') continue
      const key = keyOf(request)
      const id = request.op === 'claim' ? request.claim.id : request.id
      const state = standings[index]?.state
      if (state === 'held' || state === 'waiting') {
        if (!this.#byKey.has(key) || (state === 'waiting' && !this.waitsFor(key))) fresh.push(key)
        this.#put(key, id, { state, asked: false })
      } else if (state === 'absent') this.#delete(key, id)
    }
    return fresh
  }

  clear(): void {
    this.#byKey.clear()
  }

  #put(key: string, id: string, claim: OwnClaim): void {
    let claims = this.#byKey.get(key)
    if (claims === undefined) this.#byKey.set(key, (claims = new Map()))
    claims.set(id, claim)
  }

  #delete(key: string, id: string): void {
    const claims = this.#byKey.get(key)
    if (claims?.delete(id) === true && claims.size === 0) this.#byKey.delete(key)
  }
}

const none: ReadonlyMap<string, OwnClaim> = new Map()
