import { describe, expect, test } from 'vitest'
import { quorum } from '../../src/drivers/quorum/driver.ts'
import { simulate, type HistoryEvent, type SimulationOptions, type ViolationKind } from '../../src/testing/index.ts'
import { compositions } from './composition/compositions.ts'
import { behindServer, quorumOf } from './composition/stores.ts'
import { rounds } from '../support/extent.ts'
import { seedsFrom } from '../support/seeds.ts'
import { withoutStacks } from './support/short-errors.ts'

type Options = Omit<SimulationOptions, 'seed'>

withoutStacks()

const minutes = { timeout: 180_000 }
describe('clients hold what others do not, by true time, with fences that only grow; all get their turn, nothing is left:', () => {
  test.each(Object.entries(compositions))('%s', minutes, async (_name, { seeds: most, ...options }) => {
    const seeds = rounds(Math.ceil(most / 2), most)
    let holds = 0
    for (let seed = 1; seed <= seeds; seed += 1) {
      const { summary, events: _events, violations, ...rest } = await simulate({ seed, ...options })
      holds += summary.holds
      const messages = violations.map(({ message }) => message)
      expect({ seed, ...rest, violations: messages }).toEqual({ seed, violations: [], stuck: [], left: [], timers: 0 })
    }
    expect(holds, 'simulations without holds show nothing').toBeGreaterThan(seeds * 10)
  })
})

/** Simulations of what does not keep the promise, the first from a seed that shows it. */
async function kindsFound(firstSeed: number, options: Options): Promise<ReadonlySet<ViolationKind>> {
  const found = new Set<ViolationKind>()
  for (const seed of seedsFrom(firstSeed, 40)) {
    if (found.has('overlap')) break
    const { violations } = await simulate({ seed, ...options })
    for (const { kind } of violations) found.add(kind)
  }
  return found
}

describe('the same simulations find two holders', () => {
  test('of a lock that ends with the server in front of it', minutes, async () => {
    expect(await kindsFound(1, { store: behindServer({ lasts: false }) })).toContain('overlap')
  })

  test('of a quorum whose nodes vote as soon as they are back', minutes, async () => {
    expect(await kindsFound(26, { store: quorumOf(quorum, { votesAfterMs: 0 }), workers: 1 })).toContain('overlap')
  })
})

test('fences grow even where a server takes its store with it', minutes, async () => {
  for (let seed = 1; seed <= 10; seed += 1) {
    const { events } = await simulate({ seed, store: behindServer({ lasts: false }) })
    expect({ seed, lower: lowerFences(events) }).toEqual({ seed, lower: [] })
  }
})

/** Fences that are not above all that their key had given out before they were asked for. */
function lowerFences(events: readonly HistoryEvent[]): readonly string[] {
  const highest = new Map<string, number>()
  const asked = new Map<string, { readonly key: string; readonly above: number }>()
  const lower: string[] = []
  for (const event of events) {
    if (event.type === 'acquire') asked.set(event.attempt, { key: event.key, above: highest.get(event.key) ?? 0 })
    if (event.type !== 'granted') continue
    const { key, above } = asked.get(event.attempt) ?? { key: '', above: 0 }
    if (event.fence <= above) lower.push(`${event.attempt}: ${event.fence} after ${above}`)
    highest.set(key, Math.max(highest.get(key) ?? 0, event.fence))
  }
  return lower
}
