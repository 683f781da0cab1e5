import { describe, test } from './vitest.ts'
import type { LockDriver } from '../core/contract/driver.ts'
import type { Harness } from './bench.ts'
import { ClientGroup } from './client/client-group.ts'
import { elections } from './primitives/elections.ts'
import { hasAbility, type PrimitiveFact } from './primitives/fact.ts'
import { jobs } from './primitives/jobs.ts'
import { owners } from './primitives/owners.ts'
import { precedence } from './primitives/precedence.ts'
import { readWrite } from './primitives/read-write.ts'
import { semaphores } from './primitives/semaphores.ts'
import { webLockFacts } from './primitives/web-locks.ts'

const promises: Readonly<Record<string, (fact: PrimitiveFact) => void>> = {
  'readers and writers': readWrite,
  semaphores,
  precedence,
  elections,
  'jobs, tasks and hand-off': jobs,
  'owners and deadlocks': owners,
  'Web Locks': webLockFacts,
}

/**
 *  * Registers the tests of what is built on locks, over a driver: each runs where the driver supports what it needs. The
 * store's time must pass by itself, as the client's does; leases last some seconds.
 *
 * @example
 * ```ts
 * import { memory } from 'leasehold/memory'
 * import { primitivesConformance } from 'leasehold/testing'
 *
 * primitivesConformance('mine', {
 *   async open() {
 *     const name = crypto.randomUUID()
 *     const advance = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))
 *     return { driver: async () => memory({ name }), advance, close: async () => {} }
 *   },
 * })
 * ```
 */
export function primitivesConformance(name: string, harness: Harness): void {
  const suite = harness.apart === true ? describe.concurrent : describe
  suite(`what is built on ${name}`, async () => {
    const driver = await driverOf(harness)
    const fact: PrimitiveFact = (title, needs, body) => {
      if (!needs.every((need) => hasAbility(need, driver))) return
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

/** A driver of the kind, to see what it supports. Its store is closed. */
async function driverOf(harness: Harness): Promise<LockDriver> {
  const bench = await harness.open()
  try {
    return await bench.driver()
  } finally {
    await bench.close()
  }
}
