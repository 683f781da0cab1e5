/**
 * Locks in GitHub issues in simulated weather, for the given minutes (default 1), from a seed (default 1001) on: reads are stale,
 * lines and machines fail, and true time judges who held what.
 */
import { github } from '../src/drivers/github/driver.ts'
import { tour } from '../test/unit/github/tour.ts'
import { proveBySeeds } from './support/seeds.ts'

const kinds = ['rush', 'storm', 'siege'] as const

await proveBySeeds('github', async (seed) => {
  const kind = kinds[seed % kinds.length] ?? 'rush'
  const mixed = seed % 2 === 0
  const { summary, violations } = await tour({ seed, clients: mixed ? 4 : 3, kind, mixed, github })
  return { holds: summary.holds, violations }
})
