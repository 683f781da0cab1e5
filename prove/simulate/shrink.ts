import type { Played, Reduction, Schedule } from './schedules.ts'

/** What a violation needs, found by leaving out whatever it does not need. */
export interface Shrunk {
  readonly reduction: Reduction
  readonly played: Played
  /** How many schedules were played for it. */
  readonly tries: number
}

/** A schedule takes a tenth of a second. */
const triesMax = 600

/**
 * Makes a schedule that goes wrong smaller while it still does: fewer processes, fewer workers, less time, then fewer faults, by
 * halves and at last one by one. Undefined if nothing is wrong with it.
 */
export async function shrink(schedule: Schedule): Promise<Shrunk | undefined> {
  let played = await schedule.play()
  if (played.wrong.length === 0) return undefined
  let reduction: Reduction = {}
  let tries = 1
  const take = async (smaller: Reduction): Promise<boolean> => {
    if (tries >= triesMax) return false
    tries += 1
    const outcome = await schedule.play(smaller)
    if (outcome.wrong.length === 0) return false
    reduction = smaller
    played = outcome
    return true
  }

  for (const dimension of ['processes', 'workers'] as const) {
    for (let size = 1; size < schedule.size[dimension]; size += 1) {
      if (await take({ ...reduction, [dimension]: size })) break
    }
  }
  for (let ms = schedule.size.ms / 2; ms > 100; ms /= 2) if (!(await take({ ...reduction, ms: Math.round(ms) }))) break

  let faults = Array.from({ length: played.faults }, (_, index) => index + 1)
  if (faults.length === 0) return { reduction, played, tries }
  // Numbers beyond those of this story do not happen: what is left out changes what follows.
  await take({ ...reduction, faults: new Set(faults) })
  for (let part = Math.ceil(faults.length / 2); part >= 1; part = part === 1 ? 0 : Math.ceil(part / 2)) {
    for (let from = 0; from < faults.length;) {
      const rest = [...faults.slice(0, from), ...faults.slice(from + part)]
      if (await take({ ...reduction, faults: new Set(rest) })) faults = rest
      else from += part
    }
  }
  return { reduction, played, tries }
}

/** The reduction in one word of a command line. */
export function reductionWord({ processes, workers, ms, faults }: Reduction): string {
  return JSON.stringify({ processes, workers, ms, faults: faults && [...faults] })
}

/** What {@link reductionWord} wrote. */
export function parseReduction(word: string): Reduction {
  const { faults, ...sizes } = JSON.parse(word) as Omit<Reduction, 'faults'> & { faults?: number[] }
  return { ...sizes, ...(faults !== undefined && { faults: new Set(faults) }) }
}
