/**
 * A quorum in simulated storms, for the given minutes (default 1), from a seed (default 1001) on: nodes are slow, stopped, killed,
 * cut off and back without their data, and true time judges who held what.
 */
import { tour } from '../test/unit/quorum/tour.ts'
import { proveBySeeds } from './support/seeds.ts'

await proveBySeeds('quorum', async (seed) => {
  const { summary, violations } = await tour({ seed, nodes: seed % 3 === 0 ? 5 : 3, clients: 2 + (seed % 2) })
  return { holds: summary.holds, violations: violations.map(({ message }) => message) }
})
