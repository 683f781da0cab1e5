import { describe, expect, test, vi } from 'vitest'
import type * as life from '../../src/core/life.ts'
import type { createLocks } from '../../src/index.ts'
import { tour, type TourOptions } from './client/tour.ts'

// Errors are many here, and what they are about is told by the history.
Error.stackTraceLimit = 0

const minutes = { timeout: 180_000 }
const nothingWrong = { violations: [], stuck: [], left: [], timers: 0 }

describe('clients of one store, whose lines lose, delay and repeat, and whose processes are stopped and killed,', () => {
  test.each([
    ['in a storm', { weather: 'storm' }, 40],
    ['in a storm, reading and writing', { weather: 'storm', onlyReads: true }, 30],
    ['in a storm, without news', { weather: 'storm', store: 'silent' }, 15],
    ['in a storm, without a queue', { weather: 'storm', store: 'without queue' }, 15],
    ['in a storm, by swapping documents', { weather: 'storm', store: 'documents' }, 15],
    // One worker a process: then it is known who waits, and that nobody is overtaken.
    ['in calm weather, in order', { weather: 'calm', processes: 6, workers: 1 }, 10],
  ] as const)(
    'hold what others do not, by true time, with fences that only grow; nobody waits for ever, nothing is left: %s',
    minutes,
    async (_where, options, tours) => {
      let holds = 0
      for (let seed = 1; seed <= tours; seed += 1) {
        const { summary, violations, ...rest } = await tour({ seed, ...options })
        holds += summary.holds
        const messages = violations.map(({ message }) => message)
        expect({ seed, ...rest, violations: messages }).toEqual({ seed, ...nothingWrong })
      }
      expect(holds, 'tours without holds show nothing').toBeGreaterThan(tours * 40)
    },
  )
})

type Step = typeof life.step

/** What a planted fault changes: one function of the client's core. */
const mutants: Readonly<Record<string, Mutant>> = {
  'trusts a lease to its last moment, whatever the clocks do': {
    module: 'deadline',
    replace: () => ({ trustedUntil: (sentAt: number, ttlMs: number) => sentAt + ttlMs }),
  },
  'counts a lease from when it hears of it': {
    module: 'life',
    replace: ({ step }) => ({
      step: (life, event) => step(life, event.type === 'answer' ? { ...event, sentAt: event.at } : event),
    }),
  },
  'goes on trusting a longer lease while it asks for a shorter one': {
    module: 'life',
    replace: ({ step }) => ({
      step: (life, event) => {
        const [next, effects] = step(life, event)
        return [event.type === 'renew' ? { ...next, deadline: life.deadline } : next, effects]
      },
    }),
  },
  'believes that nothing was sent when nothing was answered': {
    module: 'life',
    replace: ({ step }) => ({
      step: (life, event) => {
        const isUnknown = event.type === 'release-answer' && event.standing.state === 'unknown'
        return isUnknown ? [{ ...life, phase: 'over' }, []] : step(life, event)
      },
    }),
  },
}

interface Mutant {
  readonly module: string
  readonly replace: (real: { readonly step: Step }) => { readonly step: Step } | { readonly trustedUntil: object }
}

describe('the same tours find a client that', () => {
  test.each(Object.entries(mutants))('%s', minutes, async (_name, mutant) => {
    const planted = await withMutant(mutant)
    expect(await seedThatFails({ weather: 'storm', createLocks: planted })).toBeDefined()
  })
})

async function seedThatFails(options: Omit<TourOptions, 'seed'>): Promise<number | undefined> {
  for (let seed = 1; seed <= 100; seed += 1) {
    const { violations, stuck } = await tour({ seed, ...options })
    if (violations.length > 0 || stuck.length > 0) return seed
  }
  return undefined
}

/** The client, made anew around a module of its core that has been changed. */
async function withMutant({ module, replace }: Mutant): Promise<typeof createLocks> {
  const file = `../../src/core/${module}.ts`
  const real = await vi.importActual<{ step: Step }>(file)
  vi.resetModules()
  vi.doMock(file, () => ({ ...real, ...replace(real) }))
  const planted = (await import('../../src/index.ts')).createLocks
  vi.doUnmock(file)
  vi.resetModules()
  return planted
}
