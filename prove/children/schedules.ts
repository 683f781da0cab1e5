/** Forked by `simulate` and `clockless`: plays the schedules of each range of seeds that it is given, and sends what came of it. */
import { createHash } from 'node:crypto'
import { ready } from '../../bench/support/child.ts'
import { clocklessSchedule } from '../simulate/clockless-schedule.ts'
import { scheduleOf } from '../simulate/schedules.ts'

export type ScheduleKind = 'simulate' | 'clockless'

/** Seeds from `from` up to, not including, `to`. */
export interface SeedRange {
  readonly from: number
  readonly to: number
}

export interface RangeOutcome extends SeedRange {
  readonly holds: number
  readonly faults: number
  readonly hash: string
  /** Seeds of schedules that went wrong, with what was. */
  readonly wrong: readonly { readonly seed: number; readonly messages: readonly string[] }[]
  /** Seeds of schedules that were played again and had another story. */
  readonly unstable: readonly number[]
}

/** One schedule in so many is played twice. */
const twiceOneIn = 50

// Stacks are slow to make for so many errors, and the history says what happened.
Error.stackTraceLimit = 0

process.on('message', ({ kind, from, to }: SeedRange & { readonly kind: ScheduleKind }) => {
  void play(kind === 'simulate' ? scheduleOf : clocklessSchedule, from, to).then((outcome) => process.send?.(outcome))
})
ready()

async function play(scheduleFor: typeof clocklessSchedule, from: number, to: number): Promise<RangeOutcome> {
  const hash = createHash('sha256')
  const wrong: { seed: number; messages: readonly string[] }[] = []
  const unstable: number[] = []
  let holds = 0
  let faults = 0
  for (let seed = from; seed < to; seed += 1) {
    const schedule = scheduleFor(seed)
    const played = await schedule.play()
    hash.update(played.hash)
    holds += played.holds
    faults += played.faults
    if (played.wrong.length > 0) wrong.push({ seed, messages: [schedule.name, ...played.wrong.slice(0, 5)] })
    if (seed % twiceOneIn === 0 && (await schedule.play()).hash !== played.hash) unstable.push(seed)
  }
  return { from, to, holds, faults, hash: hash.digest('hex').slice(0, 16), wrong, unstable }
}
