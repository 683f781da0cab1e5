/**
 * The suite every driver runs: each promise of the contract in `core/contract/driver.ts` as tests titled as facts.
 *
 * ```ts
 * conformance('mine', {
 *   async open() {
 *     const clock = { time: 0 }
 *     const store = await startStore(clock)
 *     return {
 *       driver: async () => { const driver = mine(store); await driver.open(); return driver },
 *       advance: async (ms) => void (clock.time += ms),
 *       close: () => store.stop(),
 *     }
 *   },
 * })
 * ```
 */
import { describe, expect, test } from './vitest.ts'
import type { Supports } from '../core/contract/driver.ts'
import type { Harness } from './bench.ts'
import { batches } from './conformance/batches.ts'
import { conversion } from './conformance/conversion.ts'
import { eviction } from './conformance/eviction.ts'
import { exclusion } from './conformance/exclusion.ts'
import { isMet, type BenchCan, type Fact } from './conformance/fact.ts'
import { fences } from './conformance/fences.ts'
import { limits } from './conformance/limits.ts'
import { listening } from './conformance/listening.ts'
import { listing } from './conformance/listing.ts'
import { opening } from './conformance/opening.ts'
import { order } from './conformance/order.ts'
import { repetition } from './conformance/repetition.ts'
import { Stage } from './conformance/stage.ts'
import { storeTime } from './conformance/store-time.ts'
import { succession } from './conformance/succession.ts'

const promises: Readonly<Record<string, (fact: Fact) => void>> = {
  'opening and closing': opening,
  exclusion,
  fences,
  order,
  'store time': storeTime,
  'repeatable calls': repetition,
  eviction,
  succession,
  conversion,
  batches,
  limits,
  listing,
  listening,
}

/**
 * Registers the conformance tests of a driver with vitest. Facts that need what the store does not support are left out.
 *
 * @example
 * ```ts
 * import { memory } from 'leasehold/memory'
 * import { conformance, fakeTime } from 'leasehold/testing'
 *
 * conformance('mine', {
 *   async open() {
 *     const { clock, advance } = fakeTime()
 *     const name = crypto.randomUUID()
 *     return { driver: async () => memory({ name, clock }), advance, close: async () => {} }
 *   },
 * })
 * ```
 */
export function conformance(name: string, harness: Harness): void {
  describe(`${name} keeps the contract`, async () => {
    const { supports, can } = await probe(harness)
    const exceptions = new Set(harness.except)
    for (const [promise, notify] of Object.entries(promises)) {
      const facts: Parameters<Fact>[] = []
      notify((...fact) => facts.push(fact))
      const met = facts.filter(([title, needs]) => {
        const excepted = exceptions.delete(title)
        return !excepted && needs.every((need) => isMet(need, supports, can))
      })
      // A store without a queue has no order to keep, and a heading without tests is an error.
      if (met.length === 0) continue
      describe(promise, () => {
        for (const [title, , body] of met) test(title, () => onStage(harness, body))
      })
    }
    test('what is excepted is a fact of the suite', () => expect([...exceptions]).toEqual([]))
  })
}

/** Asks the driver what it supports before any test runs, since that decides which tests there are. */
async function probe(harness: Harness): Promise<{ supports: Supports; can: BenchCan }> {
  const bench = await harness.open()
  try {
    const { supports } = await bench.driver()
    return { supports, can: { restart: bench.restart !== undefined, empty: bench.empty !== undefined } }
  } finally {
    await bench.close()
  }
}

async function onStage(harness: Harness, body: (stage: Stage) => Promise<void>): Promise<void> {
  const stage = await Stage.open(harness)
  try {
    await body(stage)
  } finally {
    await stage.close()
  }
}
