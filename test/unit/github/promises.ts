import { trustedUntil } from '../../../src/core/time/deadline.ts'
import type { Claim, LockDriver } from '../../../src/core/contract/driver.ts'
import type { World } from '../../../src/testing/simulation/world.ts'

interface Promised {
  readonly id: string
  readonly fence: number
  /** When the driver reported the claim as held, and until when that could be trusted. */
  readonly at: number
  readonly until: number
}

/** Notes what a driver promised its client, whether the client still believed it or not. */
export class Promises {
  readonly #world: World
  readonly #promised: Promised[] = []
  readonly #claims = new Map<string, Claim>()
  /** When each claim was released by its owner. */
  readonly #releasedAt = new Map<string, number>()

  constructor(world: World) {
    this.#world = world
  }

  /** The driver, with its answers and notifications recorded. */
  of(driver: LockDriver): LockDriver {
    const world = this.#world
    return {
      ...driver,
      name: driver.name,
      supports: driver.supports,
      open: () => driver.open(),
      close: () => driver.close(),
      list: (query) => driver.list(query),
      send: async (requests) => {
        const sentAt = world.now
        for (const request of requests) if (request.op === 'claim') this.#claims.set(request.claim.id, request.claim)
        for (const { op, ...request } of requests) {
          if (op === 'release' && 'id' in request && !this.#releasedAt.has(request.id)) {
            this.#releasedAt.set(request.id, sentAt)
          }
        }
        const statuses = await driver.send(requests)
        for (const [index, status] of statuses.entries()) {
          const request = requests[index]
          if (status.state !== 'held' || request === undefined || request.op === 'evict') continue
          const id = request.op === 'claim' ? request.claim.id : request.id
          const until = trustedUntil(sentAt, status.ttlMs)
          // Its owner has the conversion instead.
          const replaced = this.#claims.get(id)?.replaces
          if (replaced !== undefined && !this.#releasedAt.has(replaced)) this.#releasedAt.set(replaced, world.now)
          this.#promised.push({ id, fence: status.fence, at: world.now, until })
        }
        return statuses
      },
    }
  }

  /** Where a claim was promised to last beyond the first promise of a later one. */
  get broken(): string[] {
    const first = new Map<number, { readonly id: string; readonly since: number }>()
    for (const { id, fence, at } of this.#promised) if (!first.has(fence)) first.set(fence, { id, since: at })
    return this.#promised.flatMap(({ id, fence, until: promisedUntil }) => {
      const until = Math.min(promisedUntil, this.#releasedAt.get(id) ?? Infinity)
      const found = [...first].find(
        ([later, { id: other, since }]) => later > fence && since < until && this.#exclude(id, other),
      )
      return found === undefined
        ? []
        : [`${fence} was promised until ${until}, and ${found[0]} was held at ${found[1].since}`]
    })
  }

  /** Whether two claims may not be held together: a conversion may be held with the claim that it replaces. */
  #exclude(id: string, other: string): boolean {
    const [claim, later] = [this.#claims.get(id), this.#claims.get(other)]
    if (claim?.mode === 'shared' && later?.mode === 'shared') return false
    return later?.replaces !== id
  }
}
