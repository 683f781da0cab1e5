import { describe, expect, test, vi } from 'vitest'
import { github } from '../../src/drivers/github/driver.ts'
import type * as verdicts from '../../src/drivers/github/protocol/verdict.ts'
import { tour, type TourOptions } from './github/tour.ts'
import { rounds } from '../support/extent.ts'
import { seedsFrom } from '../support/seeds.ts'
import { withoutStacks } from './support/short-errors.ts'

withoutStacks()

const minutes = { timeout: 180_000 }

describe('workers at GitHub, whose reads are stale and whose lines and machines fail,', () => {
  test.each([
    ['rush', rounds(3, 8), rounds(20, 60)],
    ['storm', rounds(2, 6), rounds(8, 30)],
    ['siege', rounds(2, 6), rounds(5, 20)],
  ] as const)(
    'hold one at a time, by true time, with fences that only grow: %s',
    minutes,
    async (kind, tours, least) => {
      let holds = 0
      for (let seed = 1; seed <= tours; seed += 1) {
        const { violations, summary } = await tour({ seed, clients: 3, kind, github })
        holds += summary.holds
        expect(violations).toEqual([])
      }
      expect(holds, 'tours without holds show nothing').toBeGreaterThan(least)
    },
  )
})

test.each([
  ['rush', 6, 40],
  ['storm', 2, 10],
  ['siege', 1, 2],
] as const)(
  'readers, writers, upgrades, downgrades and priorities hold only what may be held together: %s',
  minutes,
  async (kind, tours, least) => {
    let holds = 0
    for (let seed = 1; seed <= tours; seed += 1) {
      const { violations, summary } = await tour({ seed, clients: 4, kind, mixed: true, github })
      holds += summary.holds
      expect(violations).toEqual([])
    }
    expect(holds, 'tours without holds show nothing').toBeGreaterThan(least)
  },
)

type Real = typeof verdicts
type Mutant = Omit<TourOptions, 'clients' | 'github'> & { readonly replace?: (real: Real) => Partial<Real> }

/** `seed` finds it: the search begins there. */
const mutants: Readonly<Record<string, Mutant>> = {
  'does not wait until reads have settled': { seed: 8, kind: 'rush', settle: 0 },
  'is content with one look': { seed: 8, kind: 'rush', replace: () => ({ settlesInMs: () => 0 }) },
  'passes over a silent holder without a takeover comment, and lets it edit itself alive': {
    seed: 2,
    kind: 'siege',
    replace: (real) => ({ verdictOn: passingOver(real), hasExpired: () => false }),
  },
  'lets a more urgent claim go first before the others have stepped back': {
    seed: 39,
    kind: 'rush',
    mixed: true,
    replace: (real) => ({ verdictOn: impatient(real) }),
  },
}

/** A holder that comes back has three things against it besides its own clock: this leaves only the takeover comment. */
const onlyTakeovers = (real: Real): Partial<Real> => ({ verdictOn: unmoved(real), hasExpired: () => false })

test('a takeover comment is enough to keep a holder from editing itself alive', minutes, async () => {
  const planted = await withVerdicts(onlyTakeovers)
  for (let seed = 1; seed <= rounds(2, 6); seed += 1) {
    expect((await tour({ seed, clients: 3, kind: 'siege', github: planted })).violations).toEqual([])
  }
})

describe('the same tours find a driver that', () => {
  test.each(Object.entries(mutants))('%s', minutes, async (_name, { replace, ...options }) => {
    const planted = replace === undefined ? github : await withVerdicts(replace)
    expect(await seedThatFails({ clients: 3, ...options, github: planted })).toBeDefined()
  })
})

/** Nobody minds that a later claim has been held. */
function unmoved(real: Real): Real['verdictOn'] {
  return (read, comment, settleMs) => {
    const verdict = real.verdictOn(read, comment, settleMs)
    const isSuperseded = verdict.state === 'ended' && verdict.claim.end?.how === 'superseded'
    return isSuperseded ? { state: 'first', claim: verdict.claim } : verdict
  }
}

/** And a silent claim does not count: nothing is written about it. */
function passingOver(real: Real): Real['verdictOn'] {
  return (read, comment, settleMs) => {
    const verdict = unmoved(real)(read, comment, settleMs)
    const passes = verdict.state === 'behind' && verdict.unrenewed.length > 0
    return passes ? { state: 'first', claim: verdict.claim } : verdict
  }
}

/** A claim of priority does not wait for those who show no grant. */
function impatient(real: Real): Real['verdictOn'] {
  return (read, own, settleMs) => {
    const verdict = real.verdictOn(read, own, settleMs)
    const isUrgent = verdict.state === 'behind' && verdict.claim.priority > 0
    const open = read.thread.claims.filter(({ comment, end }) => end === undefined && comment !== own.comment)
    const isLoneHolder = open.every(({ record }) => record?.heldSince === undefined)
    return isUrgent && isLoneHolder ? { state: 'first', claim: verdict.claim } : verdict
  }
}

async function seedThatFails({ seed: first, ...options }: TourOptions): Promise<number | undefined> {
  for (const seed of seedsFrom(first, 150)) {
    const { violations } = await tour({ seed, ...options })
    if (violations.length > 0) return seed
  }
  return undefined
}

/** The driver with another idea of where a claim stands. */
async function withVerdicts(replace: (real: Real) => Partial<Real>): Promise<typeof github> {
  const path = '../../src/drivers/github/protocol/verdict.ts'
  vi.resetModules()
  vi.doMock(path, async (importOriginal) => {
    const real = await importOriginal<Real>()
    return { ...real, ...replace(real) }
  })
  try {
    const { github: changed } = await import('../../src/drivers/github/driver.ts')
    return changed
  } finally {
    vi.doUnmock(path)
  }
}
