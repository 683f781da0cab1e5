import { playSchedule } from '../../test/unit/clockless/schedule.ts'
import type { Schedule } from './schedules.ts'

/** The schedule of a seed: owners of one lock in a store without a clock. */
export function clocklessSchedule(seed: number): Pick<Schedule, 'name' | 'play'> {
  return {
    name: 'without a clock',
    async play() {
      const { holds, overlaps, fences, hash } = await playSchedule(seed)
      return { wrong: [...overlaps, ...fences], holds, faults: 0, hash }
    },
  }
}
