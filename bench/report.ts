/** What every bench and proof shares: fair comparison, order statistics, and a result that reads well and parses. */

/** A figure and the limit it must keep. At least one of the limits is given. */
export interface Bar {
  actual: number
  atLeast?: number
  atMost?: number
}

/** What a bench found. */
export interface Report {
  /** The bench's file name, without `.ts`. */
  name: string
  /** What was measured, units last in the key: `claimsPerSecond`, `grantP99Ms`. */
  figures: Record<string, number | string | boolean>
  /** What must hold for the bench to pass. */
  bars: Record<string, Bar>
}

/**
 * Prints the figures and bars as a table, then as the last line
 * `RESULT {"name":…,"ok":…,"figures":{…},"bars":{…}}`. Sets the exit code: 0 when every bar holds, else 1.
 * Call it once, after everything the bench opened is closed. Returns whether every bar holds.
 */
export function report({ name, figures, bars }: Report): boolean {
  const judged = Object.fromEntries(Object.entries(bars).map(([title, bar]) => [title, { ...bar, ok: holds(bar) }]))
  const ok = Object.values(judged).every((bar) => bar.ok)
  const width = Math.max(0, ...[...Object.keys(figures), ...Object.keys(bars)].map((title) => title.length))

  console.log(`\n${name}`)
  for (const [title, figure] of Object.entries(figures)) console.log(`  ${title.padEnd(width)}  ${readable(figure)}`)
  if (Object.keys(judged).length > 0) console.log('\nbars')
  for (const [title, bar] of Object.entries(judged)) {
    console.log(`  ${title.padEnd(width)}  ${readable(bar.actual)} (${limitOf(bar)})  ${bar.ok ? 'holds' : 'MISSED'}`)
  }

  console.log(`\nRESULT ${JSON.stringify({ name, ok, figures, bars: judged })}`)
  process.exitCode = ok ? 0 : 1
  return ok
}

/** Measures once and resolves to the figure, e.g. claims per second. */
export type Contender = () => Promise<number> | number

/** What {@link interleave} found. */
export interface Comparison<Name extends string> {
  /** Every figure of each contender, by round. */
  rounds: Record<Name, number[]>
  /** The median figure of each contender. */
  medians: Record<Name, number>
  /** The median over the rounds of one contender's figure divided by another's of the same round. */
  ratio: (numerator: Name, denominator: Name) => number
}

/**
 * Runs the contenders one after another for several rounds, starting each round with the next contender.
 * A machine that slows down or speeds up thus favours nobody, and ratios compare neighbours in time only.
 */
export async function interleave<Name extends string>(
  rounds: number,
  contenders: Record<Name, Contender>,
): Promise<Comparison<Name>> {
  const names = Object.keys(contenders) as Name[]
  const figures = Object.fromEntries(names.map((name) => [name, [] as number[]])) as Record<Name, number[]>

  for (let round = 0; round < rounds; round += 1) {
    const start = round % names.length
    for (const name of [...names.slice(start), ...names.slice(0, start)]) {
      // One at a time: contenders must not share the machine.
      figures[name].push(await contenders[name]())
    }
  }

  return {
    rounds: figures,
    medians: Object.fromEntries(names.map((name) => [name, median(figures[name])])) as Record<Name, number>,
    ratio: (numerator, denominator) =>
      median(figures[numerator].map((figure, round) => figure / (figures[denominator][round] ?? Number.NaN))),
  }
}

/** The smallest value that at least `share` (0 to 1) of the values do not exceed. NaN when there are none. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((left, right) => left - right)
  const rank = Math.max(1, Math.ceil(share * sorted.length))
  return sorted[rank - 1] ?? Number.NaN
}

/** The middle value, or the mean of the middle two. NaN when there are none. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((left, right) => left - right)
  const upper = sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
  const lower = sorted[Math.ceil(sorted.length / 2) - 1] ?? Number.NaN
  return (lower + upper) / 2
}

/** The figures that describe a spread of durations. */
export function spread(values: readonly number[]): { p50: number; p90: number; p99: number; max: number } {
  return {
    p50: percentile(values, 0.5),
    p90: percentile(values, 0.9),
    p99: percentile(values, 0.99),
    max: percentile(values, 1),
  }
}

function holds({ actual, atLeast, atMost }: Bar): boolean {
  if (atLeast === undefined && atMost === undefined) throw new Error('A bar needs atLeast or atMost.')
  // Written so that NaN holds no bar.
  return actual >= (atLeast ?? -Infinity) && actual <= (atMost ?? Infinity)
}

function limitOf({ atLeast, atMost }: Bar): string {
  const limits = [
    atLeast === undefined ? '' : `at least ${readable(atLeast)}`,
    atMost === undefined ? '' : `at most ${readable(atMost)}`,
  ]
  return limits.filter((limit) => limit !== '').join(', ')
}

/** Four significant digits at most; whole numbers whole, with thousands apart. */
function readable(figure: number | string | boolean): string {
  if (typeof figure !== 'number') return String(figure)
  if (Math.abs(figure) >= 1000) return Math.round(figure).toLocaleString('en-GB')
  return String(Number(figure.toPrecision(4)))
}
