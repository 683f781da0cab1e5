/**
 * Compositions in simulated storms, for the given minutes (default 1), from a seed (default 1001) on: each seed plays
 * another one, and true time judges who held what.
 */
import { simulate } from '../src/testing/index.ts'
import { compositions } from '../test/unit/composition/compositions.ts'
import { proveBySeeds } from './support/seeds.ts'

const all = Object.entries(compositions)

function at<Each>(list: readonly Each[], place: number): Each {
  const each = list[place]
  if (each === undefined) throw new Error(`There is no ${place} of ${list.length}.`)
  return each
}

await proveBySeeds('composition', async (seed) => {
  const [name, { seeds: _seeds, ...options }] = at(all, seed % all.length)
  const { summary, violations, stuck, left, timers } = await simulate({ seed, ...options })
  const wrong = [
    ...violations.map(({ message }) => message),
    ...stuck.map((worker) => `${worker} had no turn`),
    ...left.map((resource) => `${resource} was left`),
    ...(timers > 0 ? [`${timers} timers were left`] : []),
  ]
  return { holds: summary.holds, violations: wrong.map((message) => `${name}: ${message}`) }
})
