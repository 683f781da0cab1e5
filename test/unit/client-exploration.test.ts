import { describe, expect, test, vi } from 'vitest'
import type * as proof from '../../src/api/lease/proof.ts'
import type * as deadline from '../../src/core/time/deadline.ts'
import type * as state from '../../src/core/client/claim-step.ts'
import { tour, type TourOptions } from './client/tour.ts'
import { rounds } from '../support/extent.ts'
import { withoutStacks } from './support/short-errors.ts'

withoutStacks()

const minutes = { timeout: 180_000 }
const nothingWrong = { violations: [], stuck: [], left: [], orphans: [], overtrusted: [], timers: 0, traces: [] }

describe('clients of one store, whose lines lose, delay and repeat, and whose processes are stopped, closed and killed,', () => {
  test.each([
    ['in a storm', { weather: 'storm' }, 25],
    ['in a storm, reading and writing', { weather: 'storm', about: 'reads' }, 20],
    ['in a storm, handing off', { weather: 'storm', about: 'hand-offs' }, 20],
    ['in a storm, by web locks', { weather: 'storm', about: 'web locks' }, 20],
    ['in a storm, with permits', { weather: 'storm', about: 'permits' }, 10],
    ['in a storm, with heartbeat threads', { weather: 'storm', threads: true }, 15],
    ['in a gale, renewing, with heartbeat threads', { weather: 'gale', about: 'renewals', threads: true }, 30],
    ['in a storm, without news', { weather: 'storm', store: 'silent' }, 15],
    ['in a storm, without a queue', { weather: 'storm', store: 'without queue' }, 15],
    ['in a storm, by swapping documents', { weather: 'storm', store: 'documents' }, 15],
    ['in a storm, without a clock to ask', { weather: 'storm', store: 'clockless' }, 6],
    ['in a gale, without a clock to ask', { weather: 'gale', store: 'clockless', about: 'renewals' }, 4],
    ['in a storm, converting without a clock to ask', { weather: 'storm', store: 'clockless', about: 'reads' }, 4],
    // One worker a process: then it is known who waits, and that nobody is overtaken.
    ['in calm weather, in order', { weather: 'calm', processes: 6, workers: 1 }, 10],
  ] as const)(
    'hold what others do not, by true time, with fences that only grow; all get their turn, nothing is left: %s',
    minutes,
    async (_where, options, most) => {
      const tours = rounds(Math.ceil(most / 3), most)
      let holds = 0
      for (let seed = 1; seed <= tours; seed += 1) {
        const { summary, violations, ...rest } = await tour({ seed, ...options })
        holds += summary.holds
        const messages = violations.map(({ message }) => message)
        expect({ seed, ...rest, violations: messages }).toEqual({ seed, ...nothingWrong })
      }
      expect(holds, 'tours without holds show nothing').toBeGreaterThan(tours * 5)
    },
  )
})

/** What planted faults change. */
type Real = Pick<typeof state, 'step'> & Pick<typeof deadline, 'trustedUntil'> & Pick<typeof proof, 'proofOf'>

/** Each changes one function. */
const mutants: Readonly<Record<string, Mutant>> = {
  'trusts a lease to its last moment, whatever the clocks do': {
    module: 'core/time/deadline',
    replace: () => ({ trustedUntil: (sentAt: number, ttlMs: number) => sentAt + ttlMs }),
  },
  'counts a lease from when it hears of it': {
    module: 'core/client/claim-step',
    replace: ({ step }) => ({
      step: (state, event) => step(state, event.type === 'answer' ? { ...event, sentAt: event.at } : event),
    }),
  },
  'goes on trusting a longer lease while it asks for a shorter one': {
    module: 'core/client/claim-step',
    replace: ({ step }) => ({
      step: (state, event) => {
        const [next, effects] = step(state, event)
        if (event.type !== 'renew') return [next, effects]
        const trusting = next.copy()
        trusting.deadline = state.deadline
        return [trusting, effects]
      },
    }),
  },
  'believes that nothing was sent when nothing was answered': {
    module: 'core/client/claim-step',
    replace: ({ step }) => ({
      step: (state, event) => {
        const isUnknown = event.type === 'release-answer' && event.status.state === 'unknown'
        if (!isUnknown) return step(state, event)
        const over = state.copy()
        over.phase = 'over'
        return [over, []]
      },
    }),
  },
  'follows for ever what it has released': {
    module: 'core/client/claim-step',
    replace: ({ step }) => ({
      step: (state, event) => {
        const [next, effects] = step(state, event)
        return [event.type === 'release-answer' ? state : next, effects]
      },
    }),
  },
  'does not say, handing a lease off, what was never answered': {
    module: 'api/lease/proof',
    tour: { weather: 'storm', about: 'hand-offs', processes: 2, workers: 4 },
    replace: ({ proofOf }) => ({
      proofOf: ({ claim, ttlMs, elsewhereMs }, fence) =>
        proofOf({ claim, ttlMs, elsewhereMs, doubtMs: undefined }, fence),
    }),
  },
  'counts what its heartbeat thread was answered from when it hears of it': {
    module: 'core/client/claim-step',
    tour: { weather: 'gale', about: 'renewals', threads: true, store: 'silent', processes: 8, workers: 1 },
    replace: ({ step }) => ({
      step: (state, event) => {
        const isElsewhere = event.type === 'answer' && event.elsewhere === true
        return step(state, isElsewhere ? { ...event, sentAt: event.at } : event)
      },
    }),
  },
}

interface Mutant {
  readonly module: string
  /** Where it shows best. Absent: in any storm. */
  readonly tour?: Omit<TourOptions, 'seed'>
  readonly replace: (real: Real) => Partial<Real>
}

describe('the same tours find a client that', () => {
  test.each(Object.entries(mutants))('%s', minutes, async (_name, mutant) => {
    const planted = await withMutant(mutant)
    expect(await seedThatFails(planted, { weather: 'storm', ...mutant.tour })).toBeDefined()
  })
})

async function seedThatFails(play: typeof tour, options: Omit<TourOptions, 'seed'>): Promise<number | undefined> {
  for (let seed = 1; seed <= 300; seed += 1) {
    const { violations, stuck, overtrusted, traces } = await play({ seed, ...options })
    if (violations.length + stuck.length + overtrusted.length + traces.length > 0) return seed
  }
  return undefined
}

/** The tours, with a client that is made anew around a module of its core that has been changed. */
async function withMutant({ module, replace }: Mutant): Promise<typeof tour> {
  const file = `../../src/${module}.ts`
  const real = await vi.importActual<Real>(file)
  vi.resetModules()
  vi.doMock(file, () => ({ ...real, ...replace(real) }))
  const planted = (await import('./client/tour.ts')).tour
  vi.doUnmock(file)
  vi.resetModules()
  return planted
}
