import { report } from '../../bench/report.ts'

/** What one tour saw, and all that was wrong with it, in words. */
export interface Seen {
  readonly holds: number
  readonly violations: readonly string[]
}

const tellEveryMs = 10_000

/**
 * Plays a tour for each seed, for as many minutes and from the seed on that the command line names, tells every ten
 * seconds how far it has come, and reports.
 */
export async function proveBySeeds(name: string, tour: (seed: number) => Promise<Seen>): Promise<void> {
  const [minutes = '1', firstSeed = '1001'] = process.argv.slice(2)
  if (!(Number(minutes) > 0) || !Number.isSafeInteger(Number(firstSeed))) {
    console.error(`Usage: npm run prove -- ${name} [MINUTES] [FIRST SEED], e.g. npm run prove -- ${name} 10 5000`)
    process.exitCode = 2
    return
  }
  // Stacks are slow to make for so many errors, and the history says what happened.
  Error.stackTraceLimit = 0
  const startedAt = performance.now()
  const until = startedAt + Number(minutes) * 60_000
  const found = { tours: 0, holds: 0, violations: 0 }
  let tellAt = startedAt + tellEveryMs
  for (let seed = Number(firstSeed); performance.now() < until; seed += 1) {
    const { holds, violations } = await tour(seed)
    found.tours += 1
    found.holds += holds
    found.violations += violations.length
    for (const message of violations) console.log(`seed ${seed}: ${message}`)
    if (performance.now() < tellAt) continue
    tellAt += tellEveryMs
    const seconds = Math.round((performance.now() - startedAt) / 1000)
    console.log(`${seconds} s: ${found.tours} tours, ${found.holds} holds, ${found.violations} violations`)
  }
  const { tours, holds, violations } = found
  report({
    name,
    figures: { tours, holds, firstSeed: Number(firstSeed) },
    bars: { tours: { actual: tours, atLeast: 1 }, violations: { actual: violations, atMost: 0 } },
  })
}
