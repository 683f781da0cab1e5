import { describe, test } from './vitest.ts'
import type { Harness } from './bench.ts'
import { asking } from './client/asking.ts'
import { chaos } from './client/chaos.ts'
import { ClientGroup } from './client/client-group.ts'
import type { ClientFact } from './client/fact.ts'
import { holding } from './client/holding.ts'

const promises: Readonly<Record<string, (fact: ClientFact) => void>> = {
  'the holder stops first': holding,
  'nothing is left behind': asking,
  'under faults': chaos,
}

/**
 *  * Registers the tests of the client over a driver: what holds when sends fail, hang, are repeated or lose their replies.
 * The store's time must pass by itself, as the client's does; leases last some seconds.
 *
 * @example
 * ```ts
 * import { memory } from 'leasehold/memory'
 * import { clientConformance } from 'leasehold/testing'
 *
 * clientConformance('mine', {
 *   async open() {
 *     const name = crypto.randomUUID()
 *     const advance = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))
 *     return { driver: async () => memory({ name }), advance, close: async () => {} }
 *   },
 * })
 * ```
 */
export function clientConformance(name: string, harness: Harness): void {
  const suite = harness.apart === true ? describe.concurrent : describe
  suite(`a client of ${name} keeps its promises`, () => {
    const fact: ClientFact = (title, body) => {
      test(title, async () => {
        const group = await ClientGroup.open(harness)
        try {
          await body(group)
        } finally {
          await group.close()
        }
      })
    }
    for (const [promise, facts] of Object.entries(promises)) describe(promise, () => facts(fact))
  })
}
