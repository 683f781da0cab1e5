import * as fc from 'fast-check'
import { describe, expect, test, vi } from 'vitest'
import type { quorum } from '../../src/drivers/quorum/driver.ts'
import type { Node } from '../../src/drivers/quorum/node.ts'
import type { HeldStatus } from '../../src/core/contract/driver.ts'
import type { Answers } from '../../src/drivers/quorum/verdict.ts'
import { tour, type TourOptions } from './quorum/tour.ts'
import { rounds } from '../support/extent.ts'
import { seedsFrom } from '../support/seeds.ts'
import { withoutStacks } from './support/short-errors.ts'

withoutStacks()

const minute = { timeout: 120_000 }

describe('a quorum whose nodes are slow, stopped, dead, cut off or back without their data', () => {
  test('has one holder at most, by true time, and fences that only grow', minute, async () => {
    let holds = 0
    const settings = fc.record({ seed: fc.nat(), nodes: fc.constantFrom(3, 3, 5), clients: fc.constantFrom(2, 3) })
    const property = fc.asyncProperty(settings, async (options) => {
      const { violations, summary } = await tour(options)
      holds += summary.holds
      expect(violations.map(({ message }) => message)).toEqual([])
    })
    await fc.assert(property, { numRuns: rounds(10, 25), seed: 1 })
    expect(holds, 'a tour without holds shows nothing').toBeGreaterThan(rounds(80, 200))
  })
})

/** What a planted fault changes: part of one module of the driver, or what it is told. `seed` finds it: the search begins there. */
type Mutant = { readonly seed?: number } & (
  | { readonly module: string; readonly replace: (real: RealModule) => Record<string, unknown> }
  | { readonly votesAfterMs: number }
)

interface RealModule {
  highestFence(granted: ReadonlyMap<Node, HeldStatus>): number
  majorityTtlMs(held: readonly HeldStatus[], majority: number): number
  renewalVerdict(answers: Answers, majority: number): unknown
}

const mutants: Readonly<Record<string, Mutant>> = {
  'takes one node too few for a majority': {
    module: 'verdict',
    replace: (real) => ({ ...real, majorityOf: (nodes: number) => Math.floor(nodes / 2) }),
  },
  'does not write the fence back': {
    seed: 3,
    module: 'fence-agreement',
    replace: (real) => ({ agreeOnFence: async (granted: ReadonlyMap<Node, HeldStatus>) => real.highestFence(granted) }),
  },
  'tells the lowest fence': {
    module: 'fence-agreement',
    replace: () => ({
      agreeOnFence: async (granted: ReadonlyMap<Node, HeldStatus>) =>
        Math.min(...[...granted.values()].map(({ fence }) => fence)),
    }),
  },
  'lets a node vote that has just restarted': { votesAfterMs: 0 },
  'takes the renewal of a minority for enough': {
    seed: 9,
    module: 'verdict',
    replace: (real) => ({
      ...real,
      renewalVerdict: (answers: Answers, majority: number) => real.renewalVerdict(answers, majority - 1),
      majorityTtlMs: (held: readonly HeldStatus[], majority: number) => real.majorityTtlMs(held, majority - 1),
    }),
  },
}

describe('the same tour finds a quorum that', () => {
  test.each(Object.entries(mutants))('%s', minute, async (_name, mutant) => {
    const options = 'module' in mutant ? { quorum: await planted(mutant) } : { votesAfterMs: mutant.votesAfterMs }
    expect(await seedThatFails(mutant.seed ?? 1, options)).toBeDefined()
  })
})

async function seedThatFails(first: number, options: Omit<TourOptions, 'seed'>): Promise<number | undefined> {
  for (const seed of seedsFrom(first, 150)) {
    const { violations } = await tour({ seed, ...options })
    if (violations.length > 0) return seed
  }
  return undefined
}

/** The quorum with one of its modules changed. */
async function planted({ module, replace }: Extract<Mutant, { module: string }>): Promise<typeof quorum> {
  const path = `../../src/drivers/quorum/${module}.ts`
  vi.resetModules()
  vi.doMock(path, async (importOriginal) => replace(await importOriginal<RealModule>()))
  try {
    const { quorum: changed } = await import('../../src/drivers/quorum/driver.ts')
    return changed
  } finally {
    vi.doUnmock(path)
  }
}
