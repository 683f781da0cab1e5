/**
 * Leases without a store clock, for the given minutes (default 1), from a seed (default 1001) on: processes whose clocks are off by up to a
 * twentieth and whose wall clocks by up to an hour, with messages lost, late and repeated. True time judges who held what.
 */
import { playSchedule } from '../test/unit/clockless/schedule.ts'
import { proveBySeeds } from './support/seeds.ts'

await proveBySeeds('clockless', async (seed) => {
  const { holds, overlaps, fences } = await playSchedule(seed)
  return { holds, violations: [...overlaps, ...fences] }
})
